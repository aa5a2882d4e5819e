// SPDX-License-Identifier: Apache-2.0
/**
 * Modules that the packages of this repository share. Internal: not covered by semantic versioning,
 * and free of `node:` imports so that they run in a browser.
 */

export { type BackoffOptions, backoffMs } from "./backoff.ts";
export { fromCallError, fromConnectError, toConnectError } from "./connect-errors.ts";
export { Counts } from "./counts.ts";
export { type DiagnosticsChannel, diagnosticsChannel } from "./diagnostics.ts";
export { envelope, prefixBytes } from "./envelope.ts";
export { later } from "./later.ts";
export { LineLimit } from "./line-limit.ts";
export { type ManualTime, manualTime } from "./manual-time.ts";
export { NetworkCounts } from "./network-counts.ts";
export { networkOf } from "./network-of.ts";
export { networkTurnKey, type TurnKey, turnKeyOf } from "./network-turns.ts";
export { Queue } from "./queue.ts";
export { RefusalCounts } from "./refusal-counts.ts";
export { RequestRates } from "./request-rates.ts";
export { shorten } from "./shorten.ts";
export { StreamCounts, type StreamLimits } from "./stream-counts.ts";
export { LoopTurns, ThreadShare } from "./thread-share.ts";
export { messageOf, toError } from "./thrown.ts";
export { pause, systemTime, type TimeSource } from "./time-source.ts";
export { TokenBuckets } from "./token-buckets.ts";
