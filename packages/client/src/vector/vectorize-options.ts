// SPDX-License-Identifier: Apache-2.0

import type { BackoffOptions } from "@dm-env-rpc/transport/internal";
import type { Environment } from "../environment/environment.ts";
import type { AutoresetMode, VectorEnvironment } from "../environment/vector.ts";

/** Request to a factory for the environment of a slot. */
export interface SlotRequest {
  /** Number of the slot, from 0. */
  readonly slot: number;
  /** The vector's seed plus the slot's number; undefined without a seed. */
  readonly seed: bigint | undefined;
  /** Number of restarts of the slot. */
  readonly restarts: number;
  /** The vector's option: with `reuse` a time step's tensors are not used after the next step. */
  readonly buffers: "fresh" | "reuse";
  /** Aborted when the vector is closed. */
  readonly signal: AbortSignal;
}

/**
 * Creates the environment of a slot: connects and joins. The slot owns environment and connection.
 */
export type SlotFactory<Action, Observation> = (
  request: SlotRequest,
) => Promise<Environment<Action, Observation>>;

/** Options of joining slots of a vector as one batch. */
export interface BatchSlots {
  /** Index of the server that the batch is on. */
  readonly server: number;
  /** The slots, by their numbers in the vector. */
  readonly slots: readonly number[];
  readonly autoresetMode: AutoresetMode;
  readonly buffers: "fresh" | "reuse";
  /** The vector's seed; each slot's is this plus its number. */
  readonly seed: bigint | undefined;
  readonly signal: AbortSignal;
}

/** A factory that can join the slots of a server as one batch, such as that of `remoteSlots`. */
export interface BatchFactory<Action, Observation> extends SlotFactory<Action, Observation> {
  /** Number of servers, over which slots are distributed in turns. */
  readonly servers: number;
  /** Joins slots as one batch, which closes its connection, too; undefined where the server or the options do not allow it. */
  joinBatch(slots: BatchSlots): Promise<VectorEnvironment<Action, Observation> | undefined>;
}

/** Options of `vectorize`. */
export interface VectorizeOptions {
  /**
   * Joins the slots as one batch for each server, where their factory and all servers support batches: all slots
   * are then stepped together, and leave together. Default true.
   */
  readonly batch?: boolean | undefined;
  /** Policy for ended sequences. Default `next-step`, the behaviour of a single environment. */
  readonly autoresetMode?: AutoresetMode | undefined;
  /** Number of slots that `recv` waits for. Default: all. */
  readonly batchSize?: number | undefined;
  /**
   * Memory of batches: every batch has arrays of its own (`fresh`, default), or the next batch
   * overwrites them (`reuse`), including those of its `timeSteps`.
   */
  readonly buffers?: "fresh" | "reuse" | undefined;
  /**
   * Stacks observations into one tensor per name. Default true. Without it slots may differ and
   * observations may have variable shapes; a batch then has them only in `timeSteps`.
   */
  readonly stack?: boolean | undefined;
  /** Slots that are created at once. Default 32. */
  readonly maxConcurrency?: number | undefined;
  /** Base of the slots' seeds. */
  readonly seed?: bigint | undefined;
  /**
   * Delays of recreating a failed slot; `never` removes it instead. Default: see BackoffOptions.
   */
  readonly restart?: BackoffOptions | "never" | undefined;
  /** Cancels the creation of the slots. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of `vectorize` for environments that may differ. */
export interface UnstackedOptions extends VectorizeOptions {
  readonly stack: false;
}

/** Stacked observations of a vector that does not stack. */
export type Unstacked = Readonly<Record<never, never>>;
