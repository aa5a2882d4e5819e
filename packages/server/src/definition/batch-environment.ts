// SPDX-License-Identifier: Apache-2.0
import type { Specs, TensorData, TensorSpec } from "@dm-env-rpc/tensor-codec";
import type { Awaitable } from "./awaitable.ts";
import { known, namesOf } from "./names.ts";
import type { SeededRandom } from "./random.ts";

/** Arrays by name, nested as the specs are: row-major, a row for each slot. */
export type BatchArraysOf<T extends Specs> = {
  readonly [K in keyof T]: T[K] extends TensorSpec<infer D>
    ? TensorData<D>
    : T[K] extends Specs
      ? BatchArraysOf<T[K]>
      : never;
};

/** The given actions of all slots in one step. */
export type BatchActionsOf<A extends Specs> = {
  readonly [K in keyof A]?: Required<A>[K] extends TensorSpec<infer D>
    ? TensorData<D>
    : Required<A>[K] extends Specs
      ? BatchActionsOf<Required<A>[K]>
      : never;
};

/**
 * The environments of a batch, simulated in arrays. They write their observations into the arrays
 * of their context, which are sent without a copy. `slots` is ascending and valid until the
 * function returns. Do not write the rows of other slots.
 *
 * An error of these functions, except `validate`, ends the batch.
 */
export interface BatchEnvironment<A extends Specs, ResetSettings = object> {
  /**
   * Begins a sequence in some slots: writes their first observations.
   *
   * @param settings Settings that the agent's resets have changed since it joined.
   */
  reset(slots: Int32Array, settings: ResetSettings): Awaitable<void>;
  /**
   * Validates the actions of a step before the step runs: throwing a DmEnvRpcError or a TensorError
   * refuses the step for all slots.
   */
  validate?(actions: BatchActionsOf<A>, slots: Int32Array): void;
  /** Steps some slots: writes their observations, rewards and ends. */
  step(actions: BatchActionsOf<A>, slots: Int32Array): Awaitable<void>;
  /** Called once when the agent has left, or the batch has failed. Its promise is not awaited. */
  close?(): Awaitable<void>;
}

/** Context of the environments of a batch. */
export interface BatchContext<Settings, JoinSettings, O extends Specs> {
  /** Number of slots. */
  readonly size: number;
  readonly settings: Settings;
  /** Settings of the join. The slots' own seeds are in `random`. */
  readonly joinSettings: JoinSettings;
  /**
   * A source for each slot. A slot that uses it behaves like a single environment from `create`
   * with the same seed.
   */
  readonly random: readonly SeededRandom[];
  /** Observations without the reward. Initially zeros. */
  readonly observation: BatchArraysOf<O>;
  /** The reward of each slot's step. Zeros before each step. */
  readonly reward: Float32Array;
  /** 1 if a sequence reaches its natural end in this step. Zeros before each step. */
  readonly terminated: Uint8Array;
  /** 1 if a sequence is cut short in this step. Zeros before each step. */
  readonly interrupted: Uint8Array;
}

/** The environments of a batch whose specs are not known at compile time. */
export type UntypedBatchEnvironment = BatchEnvironment<Specs>;

const hooks = namesOf<UntypedBatchEnvironment>({
  reset: true,
  validate: true,
  step: true,
  close: true,
});

/**
 * Returns the result of an author's `createBatch`.
 *
 * @throws Error if it has an unknown hook.
 */
export function checkBatchEnvironment(created: UntypedBatchEnvironment): UntypedBatchEnvironment {
  return known(created, hooks, "a batch of environments");
}
