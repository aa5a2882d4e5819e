// SPDX-License-Identifier: Apache-2.0
import type { ObservationChecks } from "../observation-checks.ts";

/** Policy for slots whose sequence has ended, named as in Gymnasium. */
export type AutoresetMode = "next-step" | "same-step" | "disabled";

/** Options of a join as a batch. */
export interface BatchRequest {
  readonly size: number;
  readonly autoreset: AutoresetMode;
  /** A seed for each slot. Without them, slot i has the seed of the world plus i, modulo 2^64. */
  readonly seeds: BigUint64Array | undefined;
  /** True if `discount` is observed although the environment does not declare it. */
  readonly observesDiscount: boolean;
}

/** Slots that failed in one step. */
export interface SlotFailures {
  /** Number of failed slots. */
  readonly count: number;
  /** Index of the first failed slot. */
  readonly slot: number;
  /** Error of the first failed slot. */
  readonly error: Error;
}

/** Limits of the calls of one slot's environment, in milliseconds. */
export interface SlotLimitsMs {
  readonly joinMs: number;
  readonly resetMs: number;
  readonly stepMs: number;
}

/** The server, as a batch uses it. */
export interface BatchHost {
  readonly checks: ObservationChecks;
  /** Maximum number of elements of one tensor, for all slots together. */
  readonly maxElements: number;
  readonly limits: SlotLimitsMs;
  /** Calls back once; returns a function that cancels it. */
  after(delayMs: number, callback: () => void): () => void;
  /** Reports slots whose environment failed and was recreated. */
  onFailed(failed: SlotFailures): void;
}
