// SPDX-License-Identifier: Apache-2.0
/** A world author's side of dm_env_rpc for pages: the part of this package that works without Node and without a port. */
export type { Peer } from "@dm-env-rpc/transport";
export { systemTime, type TimeSource } from "@dm-env-rpc/transport/internal";
export { freeRunning } from "./clocks/free-running.ts";
export { lockstep } from "./clocks/lockstep.ts";
export { type RealtimeOptions, realtime } from "./clocks/realtime.ts";
export { turns } from "./clocks/turns.ts";
export { type WakeUpOptions, wakeUp } from "./clocks/wake-up.ts";
export type { AgentId, SequenceState } from "./definition/agent.ts";
export type { Awaitable } from "./definition/awaitable.ts";
export type {
  AutoresetMode,
  BatchHost,
  BatchRequest,
  SlotFailures,
  SlotLimitsMs,
} from "./definition/batch/request.ts";
export type {
  BatchActionsOf,
  BatchArraysOf,
  BatchContext,
  BatchEnvironment,
} from "./definition/batch-environment.ts";
export type {
  ActionValues,
  Clock,
  ClockDriver,
  ClockSeat,
  DeadlineOptions,
  MissedDeadlinePolicy,
  SequenceControl,
  TickActions,
} from "./definition/clock.ts";
export type { Control, ControlActions, Controls } from "./definition/controls.ts";
export {
  defineEnvironment,
  type SingleAgentDefinition,
  type WithReward,
} from "./definition/environment.ts";
export { type Extension, type ExtensionContext, extension } from "./definition/extension.ts";
export type { OnlyNames } from "./definition/names.ts";
export type { ObservationChecks } from "./definition/observation-checks.ts";
export {
  type Property,
  type PropertyAccess,
  type PropertyTree,
  property,
} from "./definition/property.ts";
export { type SeededRandom, seededRandom } from "./definition/random.ts";
export { refuse, type StepRefusal } from "./definition/refuse.ts";
export type { Role } from "./definition/roles.ts";
export {
  type DefaultedSetting,
  type OptionalSetting,
  optional,
  type Setting,
  type SettingSpecs,
  type SettingValues,
  withDefault,
} from "./definition/settings.ts";
export type {
  EnvironmentContext,
  EnvironmentOf,
  EnvironmentStep,
  SingleAgentEnvironment,
} from "./definition/single-agent.ts";
export {
  type ActionsOf,
  type AgentCounts,
  type BatchedWorld,
  type DefinedWorld,
  type DestroyPolicy,
  type DropPolicy,
  defineWorld,
  type FromSettings,
  type GivenSpecs,
  type LeavePolicy,
  type MergedSpecs,
  type Observers,
  type Picture,
  type RequiredAction,
  required,
  type SequenceStart,
  type SpecSettings,
  type SpecsOf,
  type World,
  type WorldContext,
  type WorldDefinition,
  type WorldRules,
} from "./definition/world.ts";
export type { Authorize } from "./host/authorize.ts";
export {
  type DialedOut,
  type DialOutEvent,
  type DialOutOptions,
  dialOut,
} from "./host/dial-out.ts";
export {
  type CloseOptions,
  createEnvironmentServer,
  type EnvironmentServer,
  type EnvironmentServerOptions,
  type PremadeWorld,
} from "./host/environment-server.ts";
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
  type SlotsFailed,
  type TicksMissed,
  type TransportFailed,
  type WorldCreated,
  type WorldDestroyed,
  type WorldFailed,
} from "./host/events.ts";
export type { JoinToken } from "./host/join-tokens.ts";
export { type CallLimits, defaultLimits, type ServerLimits, trustedLimits } from "./host/limits.ts";
export type { ServedWorld } from "./host/served-worlds.ts";
export type {
  EnvironmentServerCounts,
  ServerCounts,
  WorldTypeCounts,
} from "./host/server-counts.ts";
export type { Spectators } from "./host/spectators.ts";
export { type RequestAnswered, requestChannelName } from "./session/request-metrics.ts";
export type { TakenSeat } from "./session/seat-tokens.ts";
export type { MessageFormat } from "./spectating/shared-message.ts";
