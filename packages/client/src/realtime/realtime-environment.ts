// SPDX-License-Identifier: Apache-2.0
import type { WaitOptions } from "../stream/wait.ts";

/** State of one environment in addition to its observation. Times are in milliseconds. */
export interface RealtimeInfo {
  /**
   * `resetting` until the new sequence has an observation; `over` from its end until `take` has
   * returned the end.
   */
  readonly status: "resetting" | "running" | "over" | "failed";
  /** Error of a failed environment. Its observation stays null. */
  readonly failure: Error | undefined;
  /** Error of the newest refused action since the last take; the environment continues. */
  readonly refusal: Error | undefined;
  /** Estimated age of the observation. Null if there is no observation. */
  readonly observationLagMs: number | null;
  /**
   * Estimated delay between the agent's call and the world applying the action, for the last action
   * that was answered. Null before the first response to an action.
   */
  readonly actionLagMs: number | null;
  /** Age of the oldest reward in the sum. Null if there is no reward. */
  readonly rewardLagMs: number | null;
  /** Time from sending the last answered request to its response. Null before the first response. */
  readonly roundTripMs: number | null;
  /**
   * Offset of the world's clock, positive if that clock is ahead; null if observations do not contain
   * the world's time.
   */
  readonly clockSkewMs: number | null;
  /** Number of observations dropped since the last take because a newer one arrived first. */
  readonly framesLost: number;
  /** Recent observations per second. Null before the second observation. */
  readonly framesPerSecond: number | null;
  /** True if a `timeLimit` ended the sequence. */
  readonly truncated: boolean;
  /** Summary of an ended sequence, with `recordStatistics`. */
  readonly sequence: {
    readonly steps: number;
    readonly return: number;
    readonly ms: number;
  } | null;
}

/** Values of all environments since the last take. */
export interface RealtimeStep<Observation> {
  /** Newest observations; null before the first observation of a sequence. */
  readonly observationN: readonly (Observation | null)[];
  /** Sums since the last take, within one sequence. */
  readonly rewardN: readonly number[];
  /** True if the sequence has ended; that environment then begins the next one by itself. */
  readonly doneN: readonly boolean[];
  readonly info: {
    readonly n: readonly RealtimeInfo[];
    /** Time from a take to the first action after it, as last measured. Null before the first such action. */
    readonly thinkingMs: number | null;
    /** Number of frames that a `throttle` missed. */
    readonly framesMissed: number;
  };
}

/** Options of `reset` in real time. */
export interface RealtimeResetOptions extends WaitOptions {
  /** True for each environment to reset. Default: all. */
  readonly mask?: readonly boolean[] | undefined;
}

/**
 * Environments that keep running whether their agents step or not, as in Universe. Every function
 * accepts and returns vectors with an element for each environment. A wrapper copies this record of
 * functions and replaces some of them.
 */
export interface RealtimeEnvironment<Action, Observation> extends AsyncDisposable {
  /** Number of environments. */
  readonly size: number;
  /**
   * Starts new sequences and returns at once. Observations are null until the first ones of the new
   * sequences arrive. May be called again at any time.
   */
  reset(options?: RealtimeResetOptions): Promise<readonly (Observation | null)[]>;
  /** Acts at once, then returns the newest values: calls `act` and `take`. */
  step(actions: readonly Action[]): Promise<RealtimeStep<Observation>>;
  /**
   * Sends an action to each environment without waiting. Environments that are resetting or over
   * ignore it. If the world is too slow, a newer action replaces the waiting one. An action that the
   * world refuses, or that does not fit the specs, is reported as `refusal` in `info.n` of a later
   * take.
   *
   * @throws DmEnvRpcError FAILED_PRECONDITION before the first reset.
   */
  act(actions: readonly Action[]): void;
  /**
   * Returns and removes the values since the last take: newest observations, summed rewards, ends
   * of sequences.
   */
  take(): RealtimeStep<Observation>;
  /** Returns the newest observations without taking them. */
  peek(): readonly (Observation | null)[];
  /** Returns the error of each failed environment. */
  failures(): readonly (Error | undefined)[];
  /**
   * Resolves when the next value of any environment arrives, or at once if all environments have
   * failed or are closed.
   */
  next(options?: WaitOptions): Promise<void>;
  /** Leaves all worlds; the connections stay open. Idempotent. */
  close(): Promise<void>;
}
