// SPDX-License-Identifier: Apache-2.0
import type { ObservationChecks } from "../observation-checks.ts";

/** When a slot whose sequence has ended begins the next one, in Gymnasium's words. */
export type AutoresetMode = "next-step" | "same-step" | "disabled";

/** What a join asks for when it asks for a batch. */
export interface BatchRequest {
  readonly size: number;
  readonly autoreset: AutoresetMode;
  /** A seed for each slot. Without them slot 0 has the seed of the world, and each other the next one. */
  readonly seeds: BigUint64Array | undefined;
  /** True if `discount` is observed though the environment has none of its own. */
  readonly observesDiscount: boolean;
}

/** Slots that failed in one step. */
export interface SlotFailures {
  /** How many. */
  readonly count: number;
  /** The first of them. */
  readonly slot: number;
  /** What that one threw. */
  readonly error: Error;
}

/** Limits of the calls of one slot's environment, in milliseconds. */
export interface SlotLimitsMs {
  readonly joinMs: number;
  readonly resetMs: number;
  readonly stepMs: number;
}

/** What a batch needs of the server. */
export interface BatchHost {
  readonly checks: ObservationChecks;
  /** Elements of one tensor, of all slots together. */
  readonly maxElements: number;
  readonly limits: SlotLimitsMs;
  /** Calls back once; returns a function that cancels it. */
  after(delayMs: number, callback: () => void): () => void;
  /** Reports slots whose environment failed and was made again. */
  onFailed(failed: SlotFailures): void;
}
