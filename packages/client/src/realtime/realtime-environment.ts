// SPDX-License-Identifier: Apache-2.0
import type { WaitOptions } from "../stream/wait.ts";

/** What is known of one environment besides what it observed. Times are in milliseconds. */
export interface RealtimeInfo {
  /** `resetting` until there is an observation of the new sequence; `over` from its end until that was taken. */
  readonly status: "resetting" | "running" | "over" | "failed";
  /** Why it failed; its observation stays null from then on. */
  readonly failure: Error | undefined;
  /** Why the newest of the actions that were refused since the last take was refused; the environment plays on. */
  readonly refusal: Error | undefined;
  /** How old the observation is: since it was made, as far as that can be known. Null without one. */
  readonly observationLagMs: number | null;
  /** From the last action that was answered being given to the world taking it, about. Null before one was. */
  readonly actionLagMs: number | null;
  /** How old the oldest reward in the sum is. Null where there is none. */
  readonly rewardLagMs: number | null;
  /** From sending the last request that was answered to its answer. Null before one was. */
  readonly roundTripMs: number | null;
  /** How far the world's clock is ahead of ours; null where observations do not tell its time. */
  readonly clockSkewMs: number | null;
  /** Observations since the last take that nobody saw, for a newer one had come. */
  readonly framesLost: number;
  /** Observations a second, lately. Null before there are two. */
  readonly framesPerSecond: number | null;
  /** Whether a `timeLimit` ended the sequence. */
  readonly truncated: boolean;
  /** How the sequence went, where it has ended and `recordStatistics` is on. */
  readonly sequence: {
    readonly steps: number;
    readonly return: number;
    readonly ms: number;
  } | null;
}

/** What has become of all environments since the last take. */
export interface RealtimeStep<Observation> {
  /** The newest; null while there is none. */
  readonly observationN: readonly (Observation | null)[];
  /** Sums since the last take, within one sequence. */
  readonly rewardN: readonly number[];
  /** Whether the sequence has ended; the index starts resetting by itself. */
  readonly doneN: readonly boolean[];
  readonly info: {
    readonly n: readonly RealtimeInfo[];
    /** From the last take to the action after it: how long the agent thought. Null at first. */
    readonly thinkingMs: number | null;
    /** Frames that a `throttle` was too late for. */
    readonly framesMissed: number;
  };
}

/** How to reset. */
export interface RealtimeResetOptions extends WaitOptions {
  /** An element for each index: which to reset. Default: all. */
  readonly mask?: readonly boolean[] | undefined;
}

/**
 * Environments that run on by themselves, whether or not their agent steps, as in Universe. Every function takes and
 * returns vectors with an element for each environment. A plain record of functions: a wrapper copies
 * it and replaces some.
 */
export interface RealtimeEnvironment<Action, Observation> extends AsyncDisposable {
  /** How many environments there are. */
  readonly size: number;
  /**
   * Starts new sequences and returns at once: observations are null until there are
   * valid ones. May be called again at any time.
   */
  reset(options?: RealtimeResetOptions): Promise<readonly (Observation | null)[]>;
  /** Acts at once, then takes what there is: `act` and `take`. */
  step(actions: readonly Action[]): Promise<RealtimeStep<Observation>>;
  /**
   * Sends an action to each environment, and waits for nothing. Those that reset or are over ignore it. More than the world
   * takes at once replace each other. An action that the world refuses, or that does not fit the specs, is reported as
   * `refusal` in `info.n` of a later take.
   *
   * @throws DmEnvRpcError FAILED_PRECONDITION before the first reset.
   */
  act(actions: readonly Action[]): void;
  /** Takes what has come since the last take: newest observations, summed rewards, ends of sequences. */
  take(): RealtimeStep<Observation>;
  /** The newest observations; nothing is taken. */
  peek(): readonly (Observation | null)[];
  /** Which environments have failed, with why. */
  failures(): readonly (Error | undefined)[];
  /** Resolves when something has come from any environment. */
  next(options?: WaitOptions): Promise<void>;
  /** Leaves all worlds; the connections stay. Idempotent. */
  close(): Promise<void>;
}
