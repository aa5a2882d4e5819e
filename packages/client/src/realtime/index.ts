// SPDX-License-Identifier: Apache-2.0
/** Environments that keep running in real time, and wrappers for them. */

export { systemTime, type TimeSource } from "@dm-env-rpc/transport/internal";
export { type RealtimeOptions, realtime } from "./realtime.ts";
export type {
  RealtimeEnvironment,
  RealtimeInfo,
  RealtimeResetOptions,
  RealtimeStep,
} from "./realtime-environment.ts";
export {
  blockingReset,
  recordStatistics,
  type ThrottleOptions,
  type TimeLimitOptions,
  throttle,
  timeLimit,
} from "./wrappers.ts";
