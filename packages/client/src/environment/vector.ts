// SPDX-License-Identifier: Apache-2.0
import type { Scalar, Settings, Tensor } from "@dm-env-rpc/tensor-codec";
import type { WaitOptions } from "../stream/wait.ts";
import type { DynamicObservation } from "./definition.ts";
import type { AgentState, TimeStep } from "./time-step.ts";

/**
 * What happens to a slot whose sequence has ended, in Gymnasium's words: its next step is the
 * first of the next sequence and ignores its action (`next-step`); the same step begins it, and what
 * was observed last is in `finalObservation` (`same-step`); nothing, until it is reset (`disabled`).
 */
export type AutoresetMode = "next-step" | "same-step" | "disabled";

/** A sequence that has ended. */
export interface SequenceInfo {
  readonly state: Exclude<AgentState, "running">;
  /** Time steps, the first not counted. */
  readonly steps: number;
  /** Sum of its rewards. */
  readonly return: number;
}

/** Observations of several slots: of each name one tensor whose first dimension are the rows. */
export type Stacked<Observation> = string extends keyof Observation
  ? DynamicStacked
  : {
      readonly [K in keyof Observation]: Observation[K] extends Tensor<infer D>
        ? Tensor<D>
        : Observation[K] extends Scalar
          ? Tensor
          : Stacked<Observation[K]>;
    };

/** Stacked observations where no specs are known by type. */
export interface DynamicStacked {
  readonly [name: string]: Tensor | DynamicStacked;
}

/**
 * The steps of several slots, a row for each. Arrays of numbers and flags have an element for each row.
 */
export interface VectorBatch<Observation = DynamicObservation, Stack = Stacked<Observation>> {
  /** The slots, row by row. */
  readonly ids: readonly number[];
  /** Zeros in rows that are not `valid`. */
  readonly observation: Stack;
  /** The time steps as the environments gave them; null in rows that are not `valid`. */
  readonly timeSteps: readonly (TimeStep<Observation> | null)[];
  /** 0 on first steps. */
  readonly reward: Float64Array;
  /** 1 on first steps. */
  readonly discount: Float64Array;
  /** 1 where a sequence came to its natural end. */
  readonly terminated: Uint8Array;
  /** 1 where a sequence was interrupted, or its slot failed. */
  readonly truncated: Uint8Array;
  /** 1 where a sequence begins. */
  readonly first: Uint8Array;
  /** 0 where there is no observation: the slot has failed, is being made again, or has left. */
  readonly valid: Uint8Array;
  /** In mode `same-step`, where a sequence has ended: its last observation, in memory of its own. */
  readonly finalObservation: readonly (Observation | null)[];
  /** Where a sequence has ended: how it went. */
  readonly finalInfo: readonly (SequenceInfo | null)[];
  /** Where a slot has failed: why. */
  readonly failures: readonly (Error | null)[];
}

/** How to reset slots. */
export interface VectorResetOptions extends WaitOptions {
  /** An element for each slot: which to reset. Default: all. */
  readonly mask?: readonly boolean[] | undefined;
  /** Settings for the reset of a slot. */
  readonly settings?: ((slot: number) => Settings | undefined) | undefined;
}

/** How long slots may take to end. */
export interface VectorCloseOptions {
  /** After so long a connection is closed, whatever the server says. Default 2,000. */
  readonly timeoutMs?: number | undefined;
}

/**
 * Many environments as one, each in a slot of its own.
 *
 * `reset` and `step` go with all slots at once; `sendReset`, `send` and `recv` with those that
 * are ready, whichever they are. A slot that fails is reported in the batch, made again, and
 * comes back with a first step; the others never wait for it. One that leaves stays away.
 */
export interface VectorEnvironment<Action, Observation, Stack = Stacked<Observation>>
  extends AsyncDisposable {
  /** How many slots there are. */
  readonly size: number;
  readonly batchSize: number;
  readonly autoresetMode: AutoresetMode;

  /**
   * Begins a new sequence in every slot, or in those of the mask. Rows of the others are not valid.
   */
  reset(options?: VectorResetOptions): Promise<VectorBatch<Observation, Stack>>;

  /**
   * Steps every slot, with an action for each: a list of them, or one whose values have the slots as their first
   * dimension (`{ push: Int32Array.of(0, 1, 1) }`), which a batch sends as it is. A scalar is the value of every slot.
   *
   * @throws DmEnvRpcError FAILED_PRECONDITION before the first reset, while another step is
   * open, and in mode `disabled` for a slot whose sequence has ended.
   * @throws TensorError for an action that does not fit; the other slots have stepped, in a batch none.
   */
  step(
    actions: readonly Action[] | Action,
    options?: WaitOptions,
  ): Promise<VectorBatch<Observation, Stack>>;

  /** Begins a new sequence in every slot, or in some, whose first steps `recv` gives. */
  sendReset(ids?: readonly number[]): void;

  /**
   * Steps some slots, by default as many as there are actions; `recv` gives what came of it, also one that
   * is open already. An action for a slot that is being made again is left out. A batch steps all its slots or none.
   */
  send(actions: readonly Action[] | Action, ids?: readonly number[]): void;

  /** Waits for `batchSize` slots, and gives their steps in the order in which they came. */
  recv(options?: WaitOptions): Promise<VectorBatch<Observation, Stack>>;

  /**
   * Takes some slots out for good: they leave their worlds, so that nobody there waits for them, and their
   * connections are closed. The others go on; `size` and ids stay. A slot that has left is no error. Those of a batch
   * leave together.
   *
   * @throws DmEnvRpcError FAILED_PRECONDITION for a slot that is stepping: `recv` its step first; and for some of the
   * slots of a batch.
   */
  leave(ids: readonly number[], options?: VectorCloseOptions): Promise<void>;

  /** Leaves all worlds and closes all connections. Idempotent. */
  close(options?: VectorCloseOptions): Promise<void>;
}
