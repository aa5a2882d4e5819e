// SPDX-License-Identifier: Apache-2.0
/** An agent's side of dm_env_rpc: connections, and environments with dm_env semantics. */
export type { BackoffOptions } from "@dm-env-rpc/transport/internal";

export {
  type ConnectOptions,
  connect,
  defaultMaxInFlight,
  defaultMaxWaiting,
  type StreamTarget,
} from "./connection/connect.ts";
export type { ReconnectOptions, ReconnectStatus } from "./connection/reconnect.ts";
export type {
  ActionOf,
  DynamicAction,
  DynamicObservation,
  EnvironmentDefinition,
  NameOf,
  ObservationOf,
  SpecsSource,
} from "./environment/definition.ts";
export type {
  BatchJoinOptions,
  Connection,
  Environment,
  JoinOptions,
  ResetOptions,
  SeatsJoinOptions,
  SignalContext,
  WorldOptions,
} from "./environment/environment.ts";
export {
  type GymnasiumEnvironment,
  type GymnasiumInfo,
  type GymnasiumStep,
  gymnasium,
} from "./environment/gymnasium.ts";
export { type Policy, type RunOptions, run } from "./environment/run.ts";
export {
  type AgentState,
  type StepType,
  type TimeStep,
  timeStep,
} from "./environment/time-step.ts";
export type {
  AutoresetMode,
  DynamicStacked,
  SequenceInfo,
  Stacked,
  VectorBatch,
  VectorCloseOptions,
  VectorEnvironment,
  VectorResetOptions,
} from "./environment/vector.ts";
export { type Extension, sendExtension } from "./properties/extension.ts";
export {
  type Properties,
  type PropertiesOptions,
  type PropertyNode,
  properties,
  type WritePropertyOptions,
} from "./properties/properties.ts";
export type { PropertyInfo } from "./properties/property-protocols.ts";
export { type Version, type Versions, versions } from "./properties/versions.ts";

export type { RequestCase, ResponseTo } from "./stream/call.ts";
export { isRefusal, type WorldFate, worldFate } from "./stream/faults.ts";
export type { MessageObserver } from "./stream/pipeline.ts";
export type { WaitOptions } from "./stream/wait.ts";
