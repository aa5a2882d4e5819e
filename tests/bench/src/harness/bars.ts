// SPDX-License-Identifier: Apache-2.0
import type { Measured } from "./compare.ts";
import type { Summary } from "./statistics.ts";

/** What a contender has to reach against another one. */
export interface Bar {
  readonly mode: string;
  readonly contender: string;
  readonly against: string;
  readonly figure: "stepsPerSecond" | "cpu";
  /** The ratio of the medians: at least so much of the speed, or at most so much of the CPU time. */
  readonly bound: number;
  /** What lies beyond, where something does. */
  readonly aim?: number;
}

/** A bar and where it was found to stand. */
export interface Verdict extends Bar {
  readonly ratio: number;
  readonly met: boolean;
}

/** Judges the bars whose both sides were measured. */
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
