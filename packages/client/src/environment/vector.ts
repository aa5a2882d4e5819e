// SPDX-License-Identifier: Apache-2.0
import type { Scalar, Settings, Tensor } from "@dm-env-rpc/tensor-codec";
import type { WaitOptions } from "../stream/wait.ts";
import type { DynamicObservation } from "./definition.ts";
import type { AgentState, TimeStep } from "./time-step.ts";

/**
 * Policy for a slot whose sequence has ended, named as in Gymnasium. `next-step`: the slot's next step
 * begins the next sequence and ignores its action. `same-step`: the step that ends a sequence also
 * begins the next one, and the last observation is in `finalObservation`. `disabled`: the slot waits
 * for a reset.
 */
export type AutoresetMode = "next-step" | "same-step" | "disabled";

/** Summary of an ended sequence. */
export interface SequenceInfo {
  readonly state: Exclude<AgentState, "running">;
  /** Number of time steps after the first. */
  readonly steps: number;
  /** Sum of the rewards. */
  readonly return: number;
}

/** Observations of several slots: one tensor per name, with the rows as the first dimension. */
export type Stacked<Observation> = string extends keyof Observation
  ? DynamicStacked
  : {
      readonly [K in keyof Observation]: Observation[K] extends Tensor<infer D>
        ? Tensor<D>
        : Observation[K] extends Scalar
          ? Tensor
          : Stacked<Observation[K]>;
    };

/** Stacked observations, for specs that are not known at compile time. */
export interface DynamicStacked {
  readonly [name: string]: Tensor | DynamicStacked;
}

/**
 * The steps of several slots, one row each. Arrays of numbers and flags have one element per row.
 */
export interface VectorBatch<Observation = DynamicObservation, Stack = Stacked<Observation>> {
  /** Slots of the rows. */
  readonly ids: readonly number[];
  /** Stacked observations; zeros in rows that are not `valid`. */
  readonly observation: Stack;
  /** The environments' time steps; null in rows that are not `valid`. */
  readonly timeSteps: readonly (TimeStep<Observation> | null)[];
  /** Rewards; 0 on first steps. */
  readonly reward: Float64Array;
  /** Discounts; 1 on first steps. */
  readonly discount: Float64Array;
  /** 1 if a sequence came to its natural end. */
  readonly terminated: Uint8Array;
  /** 1 if a sequence was interrupted or its slot has failed. */
  readonly truncated: Uint8Array;
  /** 1 if a sequence begins. */
  readonly first: Uint8Array;
  /**
   * 0 if the row has no observation, for example because its slot has failed, is being recreated, has
   * left or was not reset, or because its action was refused.
   */
  readonly valid: Uint8Array;
  /** In mode `same-step`, a copy of the last observation of an ended sequence. */
  readonly finalObservation: readonly (Observation | null)[];
  /** Summary of an ended sequence. */
  readonly finalInfo: readonly (SequenceInfo | null)[];
  /** Error of a failed slot. */
  readonly failures: readonly (Error | null)[];
  /**
   * The error with which the server refused a slot's action or reset: the slot has not stepped, and
   * its sequence continues.
   */
  readonly refusals: readonly (Error | null)[];
}

/** Options of `reset` of a vector. */
export interface VectorResetOptions extends WaitOptions {
  /** True for each slot to reset. Default: all. */
  readonly mask?: readonly boolean[] | undefined;
  /** Settings for the reset of a slot. */
  readonly settings?: ((slot: number) => Settings | undefined) | undefined;
}

/** Options of `close` and `leave` of a vector. */
export interface VectorCloseOptions {
  /**
   * Time after which a connection is closed without the server's response, in ms. Default 2,000.
   */
  readonly timeoutMs?: number | undefined;
}

/**
 * Many environments as one. Each environment has a slot.
 *
 * `reset` and `step` address all slots at once; `sendReset`, `send` and `recv` address the slots that
 * are ready. A failed slot is reported in the batch, then recreated, and continues with a first step;
 * the others never wait for it. A refused action, such as an illegal move, is reported in the batch,
 * and its slot may step again. A slot that has left does not return.
 */
export interface VectorEnvironment<Action, Observation, Stack = Stacked<Observation>>
  extends AsyncDisposable {
  /** Number of slots. */
  readonly size: number;
  readonly batchSize: number;
  readonly autoresetMode: AutoresetMode;

  /**
   * Begins a new sequence in every slot, or in the slots of the mask. Rows of other slots are not
   * valid.
   */
  reset(options?: VectorResetOptions): Promise<VectorBatch<Observation, Stack>>;

  /**
   * Steps every slot. Accepts a list with an action for each slot, or one action whose values have
   * the slots as their first dimension (`{ push: Int32Array.of(0, 1, 1) }`), which a batch sends
   * unchanged. A scalar applies to every slot.
   *
   * @throws DmEnvRpcError FAILED_PRECONDITION before the first reset, while another step is open,
   *   and in mode `disabled` for a slot whose sequence has ended.
   * @throws TensorError for an action that does not fit. Its slot has not stepped, nor have the other
   *   slots of its batch; all other slots may have.
   * @throws DmEnvRpcError of origin `server` if the server refuses an action of a batch; no slot of
   *   that batch has stepped.
   */
  step(
    actions: readonly Action[] | Action,
    options?: WaitOptions,
  ): Promise<VectorBatch<Observation, Stack>>;

  /** Begins a new sequence in all or some slots; `recv` returns their first steps. */
  sendReset(ids?: readonly number[]): void;

  /**
   * Steps one slot for each action: the slots `ids`, or by default the slots from 0 on. `recv` returns
   * their steps; a `recv` that is already waiting includes them. An action for a slot that is being
   * recreated is dropped. A batch steps all its slots together.
   */
  send(actions: readonly Action[] | Action, ids?: readonly number[]): void;

  /** Waits for the steps of `batchSize` slots, and returns them in the order of arrival. */
  recv(options?: WaitOptions): Promise<VectorBatch<Observation, Stack>>;

  /**
   * Removes some slots permanently: they leave their worlds, so that no other agent waits for them,
   * and their connections are closed. The other slots continue; `size` and ids stay the same. A slot
   * that has already left is ignored. The slots of a batch leave together.
   *
   * @throws DmEnvRpcError FAILED_PRECONDITION for a slot that is stepping (`recv` its step first), and
   *   for only some of the slots of a batch.
   */
  leave(ids: readonly number[], options?: VectorCloseOptions): Promise<void>;

  /** Leaves all worlds and closes all connections. Idempotent. */
  close(options?: VectorCloseOptions): Promise<void>;
}
