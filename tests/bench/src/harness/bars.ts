// SPDX-License-Identifier: Apache-2.0
import type { Measured } from "./compare.ts";
import type { Summary } from "./statistics.ts";

/** Least ratio of a contender to another one. */
export interface Bar {
  readonly mode: string;
  readonly contender: string;
  readonly against: string;
  readonly figure: "stepsPerSecond" | "cpu";
  /**
   * Bound of the ratio of the medians: a minimum ratio of speeds, or a maximum ratio of CPU
   * times.
   */
  readonly bound: number;
  /** A more ambitious bound, if any. */
  readonly aim?: number;
}

/** A bar with its measured ratio. */
export interface Verdict extends Bar {
  readonly ratio: number;
  readonly met: boolean;
}

/** Judges the bars whose sides were both measured. */
export function judge(bars: readonly Bar[], measured: readonly Measured[]): Verdict[] {
  const find = (contender: string, mode: string): Measured | undefined =>
    measured.find((row) => row.contender === contender && row.mode === mode);
  return bars.flatMap((bar) => {
    const mine = find(bar.contender, bar.mode);
    const theirs = find(bar.against, bar.mode);
    if (mine === undefined || theirs === undefined) {
      return [];
    }
    if (bar.figure === "cpu") {
      const ratio = cpuOf(mine) / cpuOf(theirs);
      return [{ ...bar, ratio, met: ratio <= bar.bound }];
    }
    const ratio = mine.stepsPerSecond.median / theirs.stepsPerSecond.median;
    return [{ ...bar, ratio, met: ratio >= bar.bound }];
  });
}

/** CPU microseconds of a step on both sides. */
export function cpuOf({ serverCpuMicros, clientCpuMicros }: Measured): number {
  const of = (side: Summary | undefined): number => side?.median ?? 0;
  return of(serverCpuMicros) + of(clientCpuMicros);
}
