// SPDX-License-Identifier: Apache-2.0
import type { Scalar, Settings, Tensor } from "@dm-env-rpc/tensor-codec";
import type { DynamicObservation } from "../environment/definition.ts";
import type { Environment } from "../environment/environment.ts";
import type { AgentState, TimeStep } from "../environment/time-step.ts";
import type { BackoffOptions } from "../stream/backoff.ts";
import type { WaitOptions } from "../stream/wait.ts";

/** What a factory is told of the slot that it makes an environment for. */
export interface SlotRequest {
  /** From 0. */
  readonly slot: number;
  /** The vector's seed plus the slot's number; undefined where the vector has none. */
  readonly seed: bigint | undefined;
  /** 0 at first, then how often the slot was restarted. */
  readonly restarts: number;
  /** As the vector's options have it: with `reuse` nobody looks at a time step's tensors once the next step is made. */
  readonly buffers: "fresh" | "reuse";
  /** Aborted when the vector is closed. */
  readonly signal: AbortSignal;
}

/** Makes the environment of a slot: connects and joins. The slot owns environment and connection. */
export type SlotFactory<Action, Observation> = (
  request: SlotRequest,
) => Promise<Environment<Action, Observation>>;

/**
 * What happens to a slot whose sequence has ended, in Gymnasium's words: its next step is the
 * first of the next sequence and ignores its action (`next-step`); the same step begins it, and what
 * was observed last is in `finalObservation` (`same-step`); nothing, until it is reset (`disabled`).
 */
export type AutoresetMode = "next-step" | "same-step" | "disabled";

/** How to make many environments one. */
export interface VectorizeOptions {
  /** Default `next-step`, which is what an environment does by itself. */
  readonly autoresetMode?: AutoresetMode | undefined;
  /** How many slots `recv` waits for. Default: all. */
  readonly batchSize?: number | undefined;
  /**
   * Whether every batch has arrays of its own (`fresh`, default), or the next batch overwrites them
   * (`reuse`), and those of its `timeSteps` too.
   */
  readonly buffers?: "fresh" | "reuse" | undefined;
  /**
   * Whether observations are stacked into one tensor per name. Default true. Without it slots may
   * differ and observations may be of variable shape; a batch has them in `timeSteps` alone.
   */
  readonly stack?: boolean | undefined;
  /** Slots that are being made at once. Default 32. */
  readonly maxConcurrency?: number | undefined;
  /** Gives each slot a seed. */
  readonly seed?: bigint | undefined;
  /** How a slot that fails is made again; `never` leaves it out from then on. Default: see BackoffOptions. */
  readonly restart?: BackoffOptions | "never" | undefined;
  /** Ends making the slots. */
  readonly signal?: AbortSignal | undefined;
}

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

/** How to make many environments one that need not be alike. */
export interface UnstackedOptions extends VectorizeOptions {
  readonly stack: false;
}

/** Where nothing is stacked. */
export type Unstacked = Readonly<Record<never, never>>;

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
   * Steps every slot, with an action for each.
   *
   * @throws DmEnvRpcError FAILED_PRECONDITION before the first reset, while another step is
   * open, and in mode `disabled` for a slot whose sequence has ended.
   * @throws TensorError for an action that does not fit; the other slots have stepped.
   */
  step(actions: readonly Action[], options?: WaitOptions): Promise<VectorBatch<Observation, Stack>>;

  /** Begins a new sequence in every slot, or in some, whose first steps `recv` gives. */
  sendReset(ids?: readonly number[]): void;

  /**
   * Steps some slots, by default as many as there are actions; `recv` gives what came of it, also one that
   * is open already. An action for a slot that is being made again is left out.
   */
  send(actions: readonly Action[], ids?: readonly number[]): void;

  /** Waits for `batchSize` slots, and gives their steps in the order in which they came. */
  recv(options?: WaitOptions): Promise<VectorBatch<Observation, Stack>>;

  /**
   * Takes some slots out for good: they leave their worlds, so that nobody there waits for them, and their
   * connections are closed. The others go on; `size` and ids stay. A slot that has left is no error.
   *
   * @throws DmEnvRpcError FAILED_PRECONDITION for a slot that is stepping: `recv` its step first.
   */
  leave(ids: readonly number[], options?: VectorCloseOptions): Promise<void>;

  /** Leaves all worlds and closes all connections. Idempotent. */
  close(options?: VectorCloseOptions): Promise<void>;
}
