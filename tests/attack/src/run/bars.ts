// SPDX-License-Identifier: Apache-2.0
import type { Room } from "../attacks/index.ts";

/** Results of one attack. */
export interface Row {
  readonly room: Room;
  readonly attack: string;
  /** Longest stall of the server's event loop. */
  readonly stallMs: number;
  /** Highest resident memory of the server. */
  readonly residentBytes: number;
  /** 99th percentile of the durations of the neighbour's steps before the attack. */
  readonly beforeP99Ms: number;
  /** 99th percentile of the steps during the attack of the agent on the server that is not attacked. */
  readonly controlP99Ms: number;
  /** 99th percentile of the neighbour's steps during the attack. */
  readonly p99Ms: number;
  readonly worstMs: number;
  /**
   * Time after the attack until a visitor has played, the neighbour's steps are fast and all descriptors are closed;
   * undefined if the server did not recover.
   */
  readonly recoveredMs: number | undefined;
  /** Descriptors of the attack that are still open at the end. */
  readonly descriptors: number;
  /** Errors of the server, the neighbour or a visitor. */
  readonly failures: readonly string[];
  /** Bytes and answers that the attacker counted. */
  readonly seen: string;
}

/** Largest allowed values. */
export interface Bars {
  readonly singleStallMs: number;
  readonly stallMs: number;
  readonly worstMs: number;
  /**
   * The neighbour's p99 during the attack, as a multiple of its p99 before the attack or of the control agent's p99 during the
   * attack, whichever is higher. Attacker and agents share the machine's cores, which delays the agents of all servers.
   */
  readonly p99Ratio: number;
  readonly residentBytes: number;
  readonly recoveredMs: number;
}

/** The bars of a full run. */
export const fullBars: Bars = {
  singleStallMs: 50,
  stallMs: 250,
  worstMs: 300,
  p99Ratio: 5,
  residentBytes: 512e6,
  recoveredMs: 2_000,
};

/** The bars of a quick run, which may share the machine: bars for times are loose, the others are strict. */
export const quickBars: Bars = {
  ...fullBars,
  singleStallMs: 200,
  stallMs: 1_000,
  worstMs: 2_000,
  p99Ratio: Number.POSITIVE_INFINITY,
  recoveredMs: 10_000,
};

/** Describes the bars that a row misses, and its failures. */
export function missedBars(row: Row, bars: Bars): string[] {
  const missed = [...row.failures];
  const expect = (what: string, value: number, most: number): void => {
    if (!(value <= most)) {
      missed.push(`${what} ${rounded(value)} > ${rounded(most)}`);
    }
  };
  expect("stall, ms,", row.stallMs, row.room === "messages" ? bars.singleStallMs : bars.stallMs);
  expect("resident, MB,", row.residentBytes / 1e6, bars.residentBytes / 1e6);
  expect("worst step, ms,", row.worstMs, bars.worstMs);
  if (Number.isFinite(bars.p99Ratio)) {
    const baseP99Ms = Math.max(row.beforeP99Ms, row.controlP99Ms);
    expect("p99 ÷ p99 without the attack,", row.p99Ms / baseP99Ms, bars.p99Ratio);
  }
  if (row.recoveredMs === undefined) {
    missed.push(row.descriptors > 0 ? `${row.descriptors} descriptors left open` : "not recovered");
  } else {
    expect("recovered, ms,", row.recoveredMs, bars.recoveredMs);
  }
  return missed;
}

function rounded(value: number): string {
  return value >= 10 ? value.toFixed(0) : value.toFixed(1);
}
