// SPDX-License-Identifier: Apache-2.0
import type { Environment } from "../environment/environment.ts";
import type { AutoresetMode, VectorEnvironment } from "../environment/vector.ts";
import type { BackoffOptions } from "../stream/backoff.ts";

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

/** How slots of a vector are joined as one batch. */
export interface BatchSlots {
  /** Index of the server that the batch is on. */
  readonly server: number;
  /** The slots, by their numbers in the vector. */
  readonly slots: readonly number[];
  readonly autoresetMode: AutoresetMode;
  readonly buffers: "fresh" | "reuse";
  /** The vector's; each slot's is this plus its number. */
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

/** How to make many environments one. */
export interface VectorizeOptions {
  /**
   * Joins the slots as one batch for each server, where their factory and all servers support batches: all slots
   * are then stepped together, and leave together. Default true.
   */
  readonly batch?: boolean | undefined;
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

/** How to make many environments one that need not be alike. */
export interface UnstackedOptions extends VectorizeOptions {
  readonly stack: false;
}

/** Where nothing is stacked. */
export type Unstacked = Readonly<Record<never, never>>;
