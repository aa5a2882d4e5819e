// SPDX-License-Identifier: Apache-2.0
import { clientSteps } from "../client/table.ts";
import type { Contender, Effort, Mode } from "../harness/compare.ts";
import { largeSteps, smallSteps } from "../tables/rpc.ts";

/** Rows of a table of steps that are played by this tree and by its base. */
export interface StepRows {
  readonly title: string;
  readonly load: string;
  readonly contenders: readonly Contender[];
  readonly modes: readonly Mode[];
}

/** In modes with one step in flight, `ours-each` plays the same program as `ours`, so their launches are one row. */
const sameInLockStep: ReadonlyMap<string, string> = new Map([["ours-each", "ours"]]);

/** Returns the contenders of each row of a mode: those that play the same program are in one row. */
export function contendersOfRows<C extends { readonly mine: Contender }>(
  contenders: readonly C[],
  { inFlight }: Mode,
): C[][] {
  const rows = new Map<string, C[]>();
  for (const contender of contenders) {
    const { id } = contender.mine;
    const row = (inFlight === 1 ? sameInLockStep.get(id) : undefined) ?? id;
    rows.set(row, [...(rows.get(row) ?? []), contender]);
  }
  return [...rows.values()];
}

/** Contenders that this repository implements. */
const own = ["ours", "ours-each", "ours-reuse", "ours-scavenged", "reuse", "environments"];

/**
 * A client that keeps large observations, with options of V8 that free them in minor collections (scavenges). V8 starts
 * major collections at a rate that depends on times, so that two launches of one program differ by a factor of two.
 */
const scavenged: Contender = {
  id: "ours-scavenged",
  label: "… without major collections",
  server: { runtime: "node", peer: "ours" },
  client: {
    runtime: "node",
    peer: "ours",
    v8: ["--max-semi-space-size=1", "--heap-growing-percent=300"],
  },
};

/** Tables of steps without the other contenders. */
export const stepRows: ReadonlyMap<string, StepRows> = new Map(
  [
    smallSteps,
    { ...largeSteps, contenders: [...largeSteps.contenders, scavenged] },
    clientSteps,
  ].map((table) => [table.name, rowsOf(table)]),
);

// Many launches: two processes of one program differ by up to a tenth for as long as they run. With eight, a program
// compared with itself often exceeds 1.03 in some row.
export const thorough: Effort = { launches: 16, repetitions: 10, turnMs: 150, warmUpMs: 2000 };
export const quick: Effort = { launches: 3, repetitions: 4, turnMs: 100, warmUpMs: 1000 };

function rowsOf({ title, load, contenders, modes }: StepRows): StepRows {
  return { title, load, modes, contenders: contenders.filter(({ id }) => own.includes(id)) };
}
