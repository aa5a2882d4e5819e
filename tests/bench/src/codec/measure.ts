// SPDX-License-Identifier: Apache-2.0
import { seeded } from "./tensors.ts";

/** One thing to measure. */
export interface Contestant {
  readonly name: string;
  readonly run: () => unknown;
}

/** Number and duration of repetitions. */
export interface Effort {
  readonly repetitions: number;
  /** Least duration of one repetition of one contestant, in ms. */
  readonly batchMs: number;
}

/** Receives results, so that the engine cannot optimize a run away. */
let sink: unknown;

/**
 * Microseconds of one run of each contestant of each race: the median of repetitions. Each
 * repetition goes through all races, so that a slow spell of the machine affects one repetition of
 * every race rather than all of one race.
 */
export function measure(
  races: readonly (readonly Contestant[])[],
  effort: Effort,
): readonly ReadonlyMap<string, number>[] {
  const entries = races.map((contestants) =>
    contestants.map(({ name, run }) => ({
      name,
      run,
      batch: calibrate(run, effort.batchMs),
      samples: [] as number[],
    })),
  );
  for (let repetition = 0; repetition < effort.repetitions; repetition++) {
    for (const contestants of entries) {
      for (const { run, batch, samples } of shuffled(contestants, repetition)) {
        // Not timed: it pays for the garbage of the previous contestant.
        time(run, Math.ceil(batch / 4));
        samples.push(time(run, batch) / batch);
      }
    }
  }
  return entries.map(
    (contestants) =>
      new Map(contestants.map(({ name, samples }) => [name, median(samples) * 1000])),
  );
}

/** Returns another order for each repetition, so that no contestant always follows the same one. */
function shuffled<T>(entries: readonly T[], repetition: number): T[] {
  const random = seeded(repetition + 1);
  return entries
    .map((entry) => ({ entry, place: random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ entry }) => entry);
}

/** Runs until the code is compiled; returns how many runs take `batchMs`. */
function calibrate(run: () => unknown, batchMs: number): number {
  let batch = 1;
  for (;;) {
    const elapsed = time(run, batch);
    if (elapsed >= batchMs) {
      // Once more, with the compiled code.
      const again = time(run, batch);
      return Math.max(1, Math.ceil((batch * batchMs) / Math.max(again, 0.001)));
    }
    batch *= 2;
  }
}

function time(run: () => unknown, times: number): number {
  const start = performance.now();
  for (let i = 0; i < times; i++) {
    sink = run();
  }
  return performance.now() - start;
}

function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] as number;
}

/** Returns the last result: an engine must keep a value that can be read. @public */
export function lastResult(): unknown {
  return sink;
}
