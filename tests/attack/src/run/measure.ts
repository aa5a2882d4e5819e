// SPDX-License-Identifier: Apache-2.0
import type { Step } from "../children/agents.ts";
import type { Gap } from "../children/probe.ts";

/** A span of time, in milliseconds. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Returns the value below which a share `p` (0 to 1) of the samples lies: the nearest rank. */
export function quantile(samples: readonly number[], p: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)] ?? Number.NaN;
}

/**
 * Returns a gap's own time: at most the CPU time that the process used. During the rest, the machine ran other
 * processes or was paused.
 */
export function ownGapMs({ from, to, cpuMs }: Gap): number {
  return Math.min(to - from, cpuMs);
}

/**
 * Returns a step's own time: its duration without the time in which the machine was paused, which the agent on the other
 * server shows, or without the time in which the attacked server did not have the CPU. The longer of the two is subtracted,
 * because they overlap.
 */
export function ownStepMs(
  [at, ms]: Step,
  standstills: readonly Span[],
  gaps: readonly Gap[],
): number {
  const span = { from: at, to: at + ms };
  const stood = union(standstills).reduce((sum, other) => sum + overlapMs(span, other), 0);
  const waited = gaps.reduce((sum, gap) => {
    const length = gap.to - gap.from;
    const share = length === 0 ? 0 : (length - ownGapMs(gap)) / length;
    return sum + overlapMs(span, gap) * share;
  }, 0);
  return Math.max(0, ms - Math.max(stood, waited));
}

function overlapMs(a: Span, b: Span): number {
  return Math.max(0, Math.min(a.to, b.to) - Math.max(a.from, b.from));
}

/** Merges spans that overlap. */
function union(spans: readonly Span[]): Span[] {
  const merged: { from: number; to: number }[] = [];
  for (const { from, to } of [...spans].sort((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last !== undefined && from <= last.to) {
      last.to = Math.max(last.to, to);
    } else {
      merged.push({ from, to });
    }
  }
  return merged;
}
