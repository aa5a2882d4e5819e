// SPDX-License-Identifier: Apache-2.0

/** Totals of one world, or of all worlds. While the server runs, they only grow. */
export interface Totals {
  readonly steps: number;
  readonly returns: number;
  readonly returnSum: number;
}

const nothing: Totals = { steps: 0, returns: 0, returnSum: 0 };

/**
 * The sum of the totals of several worlds. Each world counts from when it was first seen, so that the sum does not jump when a
 * world appears or disappears.
 */
export class SharedTotals {
  #sum: Totals = nothing;
  #last: ReadonlyMap<string, Totals> = new Map();

  /** Updates the sum from the current totals of the worlds, by name, and returns it. */
  add(worlds: ReadonlyMap<string, Totals>): Totals {
    for (const [name, totals] of worlds) {
      const last = this.#last.get(name);
      if (last !== undefined && totals.steps >= last.steps) {
        this.#sum = {
          steps: this.#sum.steps + totals.steps - last.steps,
          returns: this.#sum.returns + totals.returns - last.returns,
          returnSum: this.#sum.returnSum + totals.returnSum - last.returnSum,
        };
      }
    }
    this.#last = worlds;
    return this.#sum;
  }
}

/** Rates between two moments of a history. */
export interface Sample {
  readonly timeMs: number;
  readonly stepsPerSecond: number;
  /** Mean return of the sequences that ended since the previous sample; undefined if none did. */
  readonly meanReturn: number | undefined;
}

const maxSamples = 300;

/** Rates over time, computed from samples of totals. */
export class History {
  #samples: readonly Sample[] = [];
  #last: { readonly timeMs: number; readonly totals: Totals } | undefined;

  get samples(): readonly Sample[] {
    return this.#samples;
  }

  get latest(): Sample | undefined {
    return this.#samples.at(-1);
  }

  /** The mean return of the last sample that has one. */
  get latestReturn(): number | undefined {
    return this.#samples.findLast(({ meanReturn }) => meanReturn !== undefined)?.meanReturn;
  }

  /**
   * Adds the rates since the last totals. If the totals have shrunk, as after a restart of the server, the history begins
   * again.
   */
  add(timeMs: number, totals: Totals): void {
    const last = this.#last;
    if (last !== undefined && timeMs <= last.timeMs) {
      return;
    }
    this.#last = { timeMs, totals };
    if (last === undefined || totals.steps < last.totals.steps) {
      this.#samples = [];
      return;
    }
    const returns = totals.returns - last.totals.returns;
    const sample: Sample = {
      timeMs,
      stepsPerSecond: ((totals.steps - last.totals.steps) * 1_000) / (timeMs - last.timeMs),
      meanReturn: returns > 0 ? (totals.returnSum - last.totals.returnSum) / returns : undefined,
    };
    this.#samples = [...this.#samples.slice(1 - maxSamples), sample];
  }
}
