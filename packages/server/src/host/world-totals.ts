// SPDX-License-Identifier: Apache-2.0
import { addCounts, noCounts, type WorldCounts } from "../engine/world-counts.ts";
import type { WorldTypeCounts } from "./server-counts.ts";

/** A current world, as far as its counts are concerned. */
export interface CountedWorld {
  readonly host: { readonly counts: WorldCounts };
  readonly served: { readonly type: string; readonly agents: number };
}

interface Totals {
  created: number;
  failed: number;
  joins: number;
  sequences: number;
  /** Counts of the worlds that are gone. */
  past: WorldCounts;
}

/** Totals of a server's worlds by type, including worlds that are gone. */
export class WorldTotals {
  readonly #byType: ReadonlyMap<string, Totals>;

  constructor(types: readonly string[]) {
    this.#byType = new Map(
      types.map((type) => [
        type,
        { created: 0, failed: 0, joins: 0, sequences: 0, past: noCounts },
      ]),
    );
  }

  /** Counts an event of a world. */
  count(type: string, event: "created" | "failed" | "joins" | "sequences"): void {
    const totals = this.#byType.get(type);
    if (totals !== undefined) {
      totals[event] += 1;
    }
  }

  /** Keeps the counts of a world that is gone. */
  keep(type: string, counts: WorldCounts): void {
    const totals = this.#byType.get(type);
    if (totals !== undefined) {
      totals.past = addCounts(totals.past, counts);
    }
  }

  /** Returns the counts of each type, including those of the current worlds. */
  with(current: readonly CountedWorld[]): readonly WorldTypeCounts[] {
    return [...this.#byType].map(([type, { created, failed, joins, sequences, past }]) => {
      const own = current.filter(({ served }) => served.type === type);
      const sum = own.reduce((counts, { host }) => addCounts(counts, host.counts), past);
      const { ticks, steps, missedDeadlines, missedTicks, tickLagMs } = sum;
      return {
        type,
        worlds: own.length,
        agents: own.reduce((agents, { served }) => agents + served.agents, 0),
        created,
        failed,
        joins,
        sequences,
        ticks,
        steps,
        missedDeadlines,
        missedTicks,
        tickLagMs,
      };
    });
  }
}
