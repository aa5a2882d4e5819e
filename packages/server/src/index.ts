// SPDX-License-Identifier: Apache-2.0
/** A world author's side of dm_env_rpc: define worlds, and serve them. */
export type { ListenTls, Peer } from "@dm-env-rpc/transport";
export type { AgentId, SequenceState } from "./agent.ts";
export type { Authorize, Role } from "./authorize.ts";
export type { Awaitable } from "./awaitable.ts";
export type {
  Clock,
  ClockDriver,
  ClockSeat,
  DeadlineOptions,
  MissedDeadlinePolicy,
  SequenceControl,
  TickActions,
} from "./clocks/clock.ts";
export { freeRunning } from "./clocks/free-running.ts";
export { lockstep } from "./clocks/lockstep.ts";
export { type RealtimeOptions, realtime } from "./clocks/realtime.ts";
export { turns } from "./clocks/turns.ts";
export { type WakeUpOptions, wakeUp } from "./clocks/wake-up.ts";
export {
  defineEnvironment,
  type EnvironmentContext,
  type EnvironmentStep,
  type SingleAgentDefinition,
  type SingleAgentEnvironment,
  type WithReward,
} from "./environment.ts";
export {
  type CloseOptions,
  createEnvironmentServer,
  type EnvironmentServer,
  type EnvironmentServerOptions,
  type PremadeWorld,
} from "./environment-server.ts";
export {
  type AgentJoined,
  type AgentLeft,
  type AnswerFailed,
  type ConnectionClosed,
  type ConnectionOpened,
  type ConnectionRefused,
  channelName,
  type DeadlineMissed,
  type SeatFailed,
  type SequenceStarted,
  type ServerClosing,
  type ServerEvent,
  type TransportFailed,
  type WorldCreated,
  type WorldDestroyed,
  type WorldFailed,
} from "./events.ts";
export { type Extension, type ExtensionContext, extension } from "./extension.ts";
export { createHealthBoard, type HealthBoard } from "./health.ts";
export type { JoinToken, TakenSeat } from "./join-tokens.ts";
export { type CallLimits, defaultLimits, type ServerLimits } from "./limits.ts";
export type { ObservationChecks } from "./observing.ts";
export {
  type Property,
  type PropertyAccess,
  type PropertyTree,
  property,
} from "./properties/property.ts";
export { type SeededRandom, seededRandom } from "./random.ts";
export { addReflection } from "./reflection.ts";
export { type RequestAnswered, requestChannelName } from "./request-metrics.ts";
export type { ActionValues } from "./seat-specs.ts";
export { type ServeOptions, type Server, serve } from "./serve.ts";
export type { ServedWorld } from "./served-worlds.ts";
export {
  type DefaultedSetting,
  type OptionalSetting,
  optional,
  type Setting,
  type SettingSpecs,
  type SettingValues,
  withDefault,
} from "./settings.ts";
export { systemTime, type TimeSource } from "./time-source.ts";
export {
  type ActionsOf,
  type AgentCounts,
  type DestroyPolicy,
  defineWorld,
  type FromSettings,
  type LeavePolicy,
  type Observers,
  type RequiredAction,
  required,
  type SequenceStart,
  type SpecSettings,
  type World,
  type WorldContext,
  type WorldDefinition,
} from "./world.ts";
