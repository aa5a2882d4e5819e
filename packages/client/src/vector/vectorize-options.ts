// SPDX-License-Identifier: Apache-2.0

import type { BackoffOptions } from "@dm-env-rpc/transport/internal";
import type { Environment } from "../environment/environment.ts";
import type { AutoresetMode, VectorEnvironment } from "../environment/vector.ts";

/** A vector's request for the environment of a slot. */
export interface SlotRequest {
  /** Number of the slot, from 0. */
  readonly slot: number;
  /** The seed of the vector plus the number of the slot; undefined if the vector has no seed. */
  readonly seed: bigint | undefined;
  /** Number of times that the slot has been recreated. */
  readonly restarts: number;
  /** The option of the vector. With `reuse`, the vector does not use the tensors of a time step after the next step. */
  readonly buffers: "fresh" | "reuse";
  /** Aborted when the vector is closed. */
  readonly signal: AbortSignal;
}

/**
 * Creates the environment of a slot: connects and joins. The slot owns the environment and its
 * connection.
 */
export type SlotFactory<Action, Observation> = (
  request: SlotRequest,
) => Promise<Environment<Action, Observation>>;

/** A vector's request to join some slots as one batch. */
export interface BatchSlots {
  /** Index of the server to join. */
  readonly server: number;
  /** Numbers of the slots in the vector. */
  readonly slots: readonly number[];
  readonly autoresetMode: AutoresetMode;
  readonly buffers: "fresh" | "reuse";
  /** The seed of the vector. The seed of each slot is this plus the number of the slot. */
  readonly seed: bigint | undefined;
  readonly signal: AbortSignal;
}

/** A factory that can join the slots of a server as one batch. `remoteSlots` returns one. */
export interface BatchFactory<Action, Observation> extends SlotFactory<Action, Observation> {
  /** Number of servers, to which slots are assigned round-robin. */
  readonly servers: number;
  /**
   * Joins slots as one batch that owns its connection. Resolves with undefined if the server or the options do not
   * support batches.
   */
  joinBatch(slots: BatchSlots): Promise<VectorEnvironment<Action, Observation> | undefined>;
}

/** Options of `vectorize`. */
export interface VectorizeOptions {
  /**
   * Joins the slots as one batch on each server, if the factory and all servers support batches. The slots then
   * step together and leave together. Default true.
   */
  readonly batch?: boolean | undefined;
  /** Policy for ended sequences. Default `next-step`, the behaviour of a single environment. */
  readonly autoresetMode?: AutoresetMode | undefined;
  /** Number of slots that `recv` waits for. Default: all. */
  readonly batchSize?: number | undefined;
  /**
   * Memory of batches: every batch has new arrays (`fresh`, default), or the next batch overwrites
   * the arrays, including those of `timeSteps` (`reuse`).
   */
  readonly buffers?: "fresh" | "reuse" | undefined;
  /**
   * Stacks observations into one tensor per name. Default true. With `false`, slots may have different
   * specs and variable shapes, and a batch has the observations only in `timeSteps`.
   */
  readonly stack?: boolean | undefined;
  /** Maximum number of slots that are created concurrently. Default 32. */
  readonly maxConcurrency?: number | undefined;
  /** Seed of slot 0; each slot has this plus its number. */
  readonly seed?: bigint | undefined;
  /**
   * Attempts and delays of recreating a failed slot. With `never`, the slot stays failed. Default: see
   * BackoffOptions.
   */
  readonly restart?: BackoffOptions | "never" | undefined;
  /** Cancels the creation of the slots. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of `vectorize` for environments that may differ. */
export interface UnstackedOptions extends VectorizeOptions {
  readonly stack: false;
}

/** The `observation` of an unstacked batch: an empty record. */
export type Unstacked = Readonly<Record<never, never>>;
