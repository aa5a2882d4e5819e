// SPDX-License-Identifier: Apache-2.0
import { seeded } from "./tensors.ts";

/** One thing to measure. */
export interface Contestant {
  readonly name: string;
  readonly run: () => unknown;
}

/** How long to measure. */
export interface Effort {
  readonly repetitions: number;
  /** What one repetition of one contestant takes, at least. */
  readonly batchMs: number;
}

/** Where results go, so that no run is optimized away. */
let sink: unknown;

/**
 * Microseconds of one run of each contestant of each race: the median of
 * repetitions. Each repetition goes through all races, so that a slow spell of the
 * machine hits one repetition of everybody and not all of one race.
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
        // Not timed: it pays for the garbage that the one before left.
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

/** Another order in each repetition, so that nobody always comes behind the same one. */
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
      // Once more, with what the compiler made of it meanwhile.
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

/** The last result: an engine may not drop what somebody could read. @public */
export function lastResult(): unknown {
  return sink;
}
