// SPDX-License-Identifier: Apache-2.0
import { systemTime, type TimeSource } from "@dm-env-rpc/transport/internal";

import type { RealtimeEnvironment, RealtimeInfo, RealtimeStep } from "./realtime-environment.ts";

/**
 * Makes `reset` wait until every environment has an observation. It does not wait for failed
 * environments, whose observations are null.
 */
export function blockingReset<Action, Observation>(
  inner: RealtimeEnvironment<Action, Observation>,
): RealtimeEnvironment<Action, Observation> {
  return {
    ...inner,
    reset: async (options = {}) => {
      let observations = await inner.reset(options);
      while (observations.some((seen, i) => seen === null && inner.failures()[i] === undefined)) {
        await inner.next(options);
        observations = inner.peek();
      }
      return observations;
    },
  };
}

/** Options of `throttle`. */
export interface ThrottleOptions {
  /** Clock. Default: the machine's. */
  readonly time?: TimeSource | undefined;
}

/**
 * Makes `step` last one frame. It acts at once, waits for the end of the frame, then returns the
 * newest observation and the sum of the rewards. The sum never spans two sequences. A frame that has
 * already ended when the agent acts counts as missed.
 */
export function throttle<Action, Observation>(
  inner: RealtimeEnvironment<Action, Observation>,
  fps: number,
  options: ThrottleOptions = {},
): RealtimeEnvironment<Action, Observation> {
  const { time = systemTime } = options;
  const frameMs = 1_000 / fps;
  let frameEnd: number | undefined;
  return {
    ...inner,
    step: async (actions) => {
      inner.act(actions);
      const now = time.now();
      frameEnd = frameEnd === undefined ? now + frameMs : frameEnd + frameMs;
      const framesMissed = Math.max(0, Math.ceil((now - frameEnd) / frameMs));
      frameEnd += framesMissed * frameMs;
      const waitMs = frameEnd - now;
      if (waitMs > 0) {
        await new Promise<void>((resolve) => void time.after(waitMs, resolve));
      }
      const step = inner.take();
      return {
        ...step,
        info: { ...step.info, framesMissed: step.info.framesMissed + framesMissed },
      };
    },
  };
}

/** Limits of a sequence. */
export interface TimeLimitOptions {
  /** Maximum number of the agent's steps. */
  readonly steps?: number | undefined;
  /** Maximum time since the first observation of the sequence was taken, in ms. */
  readonly ms?: number | undefined;
  /** Clock. Default: the machine's. */
  readonly time?: TimeSource | undefined;
}

/** Cuts sequences short: the step at the limit is done and truncated, and its environment resets. */
export function timeLimit<Action, Observation>(
  inner: RealtimeEnvironment<Action, Observation>,
  limits: TimeLimitOptions,
): RealtimeEnvironment<Action, Observation> {
  const { steps = Number.POSITIVE_INFINITY, ms = Number.POSITIVE_INFINITY } = limits;
  return counting(inner, limits, async (step, sequences) => {
    const cut = sequences.map(
      (sequence, i) => (sequence.steps >= steps || sequence.ms >= ms) && step.doneN[i] === false,
    );
    if (!cut.includes(true)) {
      return step;
    }
    await inner.reset({ mask: cut });
    return {
      ...step,
      doneN: step.doneN.map((done, i) => done || cut[i] === true),
      info: {
        ...step.info,
        n: step.info.n.map((info, i) => (cut[i] ? { ...info, truncated: true } : info)),
      },
    };
  });
}

/** Adds the steps, return and duration of an ended sequence to `info.n`. */
export function recordStatistics<Action, Observation>(
  inner: RealtimeEnvironment<Action, Observation>,
  options: ThrottleOptions = {},
): RealtimeEnvironment<Action, Observation> {
  return counting(inner, options, (step, sequences) => {
    const n = step.info.n.map((info, i): RealtimeInfo => {
      return step.doneN[i] === true ? { ...info, sequence: sequences[i] ?? null } : info;
    });
    return { ...step, info: { ...step.info, n } };
  });
}

type SequenceSoFar = NonNullable<RealtimeInfo["sequence"]>;

/**
 * Counts the steps, rewards and time of each environment's sequence; `seen` may replace each step before it is
 * returned.
 */
function counting<Action, Observation>(
  inner: RealtimeEnvironment<Action, Observation>,
  { time = systemTime }: ThrottleOptions,
  seen: (
    step: RealtimeStep<Observation>,
    sequences: readonly SequenceSoFar[],
  ) => RealtimeStep<Observation> | Promise<RealtimeStep<Observation>>,
): RealtimeEnvironment<Action, Observation> {
  const sequences = Array.from({ length: inner.size }, begun);
  const forget = (mask: readonly boolean[] | undefined): void => {
    for (const i of sequences.keys()) {
      if (mask === undefined || mask[i] === true) {
        sequences[i] = begun();
      }
    }
  };
  return {
    ...inner,
    reset: async (options) => {
      forget(options?.mask);
      return await inner.reset(options);
    },
    step: async (actions) => {
      const step = await inner.step(actions);
      const now = time.now();
      for (const [i, sequence] of sequences.entries()) {
        if (step.observationN[i] === null) {
          continue;
        }
        sequence.since ??= now;
        sequence.steps++;
        sequence.sum += step.rewardN[i] ?? 0;
      }
      const soFar = sequences.map(({ steps, sum, since = now }) => ({
        steps,
        return: sum,
        ms: now - since,
      }));
      const result = await seen(step, soFar);
      forget(result.doneN);
      return result;
    },
  };
}

/** Returns a sequence without steps; `since` is the time when its first observation was taken. */
function begun(): { steps: number; sum: number; since: number | undefined } {
  return { steps: 0, sum: 0, since: undefined };
}
