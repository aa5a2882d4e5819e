// SPDX-License-Identifier: Apache-2.0

import type { EnvironmentStateType } from "@dm-env-rpc/protocol";
import {
  DmEnvRpcError,
  type DmEnvSpec,
  type DmEnvSpecs,
  type Specs,
  toDmEnvSpec,
  toDmEnvSpecs,
} from "@dm-env-rpc/tensor-codec";
import type { StepResponse, Uid, UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import { ActionWriter } from "./action-writer.ts";
import type { DynamicObservation } from "./definition.ts";
import type { JoinOptions } from "./environment.ts";
import {
  checkDefinition,
  checkSignal,
  nestSpecs,
  requestedObservations,
  type SpecTables,
} from "./join-specs.ts";
import { ObservationReader } from "./observation-reader.ts";
import { discountOf, rewardOf } from "./signals.ts";
import { type AgentState, agentState, stepTypeOf, type TimeStep, timeStep } from "./time-step.ts";

/**
 * An agent's view of its world through one set of specs: converts actions by name to UIDs, and
 * StepResponses to time steps. A reset that changes the specs creates a new view.
 */
export class AgentView {
  readonly tables: SpecTables;
  readonly specs: { readonly actions: Specs; readonly observations: Specs };
  readonly observationSpec: DmEnvSpecs;
  readonly #options: JoinOptions;
  readonly #writer: ActionWriter;
  readonly #reader: ObservationReader;

  /**
   * @throws TensorError if the definition, a requested name or a signal does not match the specs.
   */
  constructor(tables: SpecTables, options: JoinOptions) {
    const { as } = options;
    if (as !== undefined) {
      checkDefinition(as.actions, tables.actions, "action");
      checkDefinition(as.observations, tables.observations, "observation");
    }
    if (options.reward === undefined) {
      checkSignal(tables.observations, "reward");
    }
    if (options.discount === undefined) {
      checkSignal(tables.observations, "discount");
    }
    const { entries, hidden } = requestedObservations(
      tables.observations,
      options.observations,
      as?.observations,
    );
    this.tables = tables;
    this.specs = {
      actions: nestSpecs(tables.actions.entries),
      observations: nestSpecs(tables.observations.entries),
    };
    this.observationSpec = toDmEnvSpecs(nestSpecs(entries.filter(({ name }) => !hidden.has(name))));
    this.#options = options;
    this.#writer = new ActionWriter(tables.actions);
    this.#reader = new ObservationReader(entries, hidden, options.tensors === "copy");
  }

  get requested(): readonly Uid[] {
    return this.#reader.uids;
  }

  /** @throws TensorError if a name is unknown or a value does not fit its spec. */
  pack(action: object): UidTensor[] {
    return this.#writer.write(action);
  }

  /**
   * Returns the spec of a signal: a single float64 if a function computes it or the world has no such
   * observation.
   */
  signalSpec(name: "reward" | "discount"): DmEnvSpec {
    const spec = this.tables.observations.byName.get(name)?.spec;
    if (spec !== undefined && this.#options[name] === undefined) {
      return toDmEnvSpec(name, spec);
    }
    if (name === "reward") {
      return { kind: "array", name, dtype: "float64", shape: [] };
    }
    return { kind: "boundedArray", name, dtype: "float64", shape: [], minimum: 0, maximum: 1 };
  }

  /**
   * Creates the time step of a response.
   *
   * @param before State of the previous response.
   * @throws DmEnvRpcError INTERNAL if the state cannot follow the previous state.
   * @throws TensorError if an observation does not fit its spec.
   */
  timeStep(before: AgentState, response: StepResponse): TimeStep<DynamicObservation> {
    const state = agentState(response.state);
    const stepType = state === undefined ? undefined : stepTypeOf(before, state);
    if (state === undefined || stepType === undefined) {
      throw illegalState(before, response.state);
    }
    const { observation, reward, discount } = this.#reader.read(response.observations);
    if (stepType === "first") {
      return timeStep(stepType, state, null, null, observation);
    }
    const options = this.#options;
    return timeStep(
      stepType,
      state,
      options.reward === undefined
        ? rewardOf(reward)
        : options.reward({ stepType, state, observation, value: reward }),
      options.discount === undefined
        ? discountOf(discount, state)
        : options.discount({ stepType, state, observation, value: discount }),
      observation,
    );
  }

  actionSpec(): DmEnvSpecs {
    return toDmEnvSpecs(this.specs.actions);
  }
}

function illegalState(before: AgentState, received: EnvironmentStateType): DmEnvRpcError {
  const state = agentState(received) ?? `state ${received}`;
  const expected = before === "running" ? "running, terminated or interrupted" : "running";
  return new DmEnvRpcError(
    "INTERNAL",
    `expected ${expected} after ${before}, received ${state}; the server breaks the protocol: reset or join again`,
    { origin: "connection" },
  );
}
