// SPDX-License-Identifier: Apache-2.0
/** An agent's side of dm_env_rpc: connections, and environments with dm_env semantics. */
export type { BackoffOptions } from "./backoff.ts";
export type { RequestCase, ResponseTo } from "./call.ts";
export {
  type ConnectOptions,
  connect,
  defaultMaxInFlight,
  defaultMaxWaiting,
  type StreamTarget,
} from "./connect.ts";
export type { Connection, MessageObserver, WorldOptions } from "./connection.ts";
export type {
  ActionOf,
  DynamicAction,
  DynamicObservation,
  EnvironmentDefinition,
  NameOf,
  ObservationOf,
  SpecsSource,
} from "./definition.ts";
export type { Environment, JoinOptions, ResetOptions, SignalContext } from "./environment.ts";
export { type Extension, sendExtension } from "./extension.ts";
export { isRefusal, worldFate } from "./faults.ts";
export {
  type GymnasiumEnvironment,
  type GymnasiumInfo,
  type GymnasiumStep,
  gymnasium,
} from "./gymnasium.ts";
export {
  type Properties,
  type PropertiesOptions,
  type PropertyInfo,
  type PropertyNode,
  properties,
  type WritePropertyOptions,
} from "./properties.ts";
export type {
  ReconnectOptions,
  ReconnectStatus,
  WorldFate,
} from "./reconnect.ts";
export { type Policy, type RunOptions, run } from "./run.ts";
export { type AgentState, type StepType, type TimeStep, timeStep } from "./time-step.ts";
export { type Version, type Versions, versions } from "./versions.ts";
export type { WaitOptions } from "./wait.ts";
