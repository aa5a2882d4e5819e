// SPDX-License-Identifier: Apache-2.0
import { hasRedis } from "@dm-env-rpc/tests-processes";
import { median } from "../harness/statistics.ts";
import { short, textTable } from "../harness/table.ts";
import type { TableResult } from "../tables/table-result.ts";
import { measureHere, measureThere } from "./measure.ts";
import { describe, type Planned, type PlanOptions, plan } from "./plan.ts";
import type { Figures } from "./worker/job.ts";

/** One row of the matchmaker's table. */
interface Row {
  readonly planned: Planned;
  readonly figures: Figures;
}

/** The figures, as the head of the table names them. */
const columns: readonly (readonly [head: string, figure: keyof Figures])[] = [
  ["tickets/s", "ticketsPerSecond"],
  ["CPU µs", "cpuMicros"],
  ["p50 ms", "p50Ms"],
  ["p99 ms", "p99Ms"],
  ["tick ms", "tickMs"],
  ["longest", "largestTickMs"],
  ["blocked ms", "heldMs"],
  ["GetTicket p99", "getP99Ms"],
  ["busy", "busy"],
  ["done ms", "doneMs"],
  ["peak MB", "peakMb"],
  ["Redis MB", "redisMb"],
];

/**
 * Measures the matchmaker with its state in memory and, where there is a redis-server, in Redis: tickets that arrive, that
 * are assigned after they have waited, that wait unmatched and that are watched, and a restart.
 */
export async function runMatchmaker(
  options: PlanOptions,
  onProgress: (text: string) => void,
): Promise<TableResult> {
  const rows: Row[] = [];
  for (const planned of plan(options)) {
    onProgress(labelOf(planned).join(" "));
    rows.push({ planned, figures: await planned.with(measureHere) });
  }
  return {
    name: "matchmaker",
    title: "matchmaker: tickets in groups of 4, over simulated servers",
    text: [tableOf(rows), "", ...growthOf(rows), ...withoutRedis()].join("\n"),
    data: rows.map(({ planned: { store, job }, figures }) => ({ store, ...job, ...figures })),
    plots: [],
    missed: 0,
  };
}

/** Compares the matchmaker with that of another built checkout: both are measured in turns. */
export async function compareMatchmakers(
  { name, folder }: { readonly name: string; readonly folder: string },
  options: PlanOptions,
  onProgress: (text: string) => void,
): Promise<TableResult> {
  await using there = await measureThere(folder);
  const turns = options.quick ? 1 : 3;
  const compared: { readonly planned: Planned; readonly mine: Figures; readonly base: Figures }[] =
    [];
  const failures: string[] = [];
  for (const planned of plan(options)) {
    const [mine, base]: [Figures[], Figures[]] = [[], []];
    for (let turn = 0; turn < turns; turn++) {
      onProgress(`turn ${turn + 1} of ${turns}: ${labelOf(planned).join(" ")}`);
      const sides = [
        async () => mine.push(await planned.with(measureHere)),
        async () => {
          try {
            base.push(await planned.with(there));
          } catch (error) {
            // An earlier commit may lack what the row needs.
            failures.push(`${name}, ${labelOf(planned).join(" ")}: ${reasonOf(error)}`);
          }
        },
      ];
      for (const side of turn % 2 === 0 ? sides : sides.reverse()) {
        await side();
      }
    }
    compared.push({ planned, mine: medians(mine), base: medians(base) });
  }
  const shown = columns.filter(([, figure]) =>
    compared.some(({ mine }) => mine[figure] !== undefined),
  );
  const cell = (mine: number | undefined, base: number | undefined): string =>
    mine === undefined ? "" : `${short(mine)} (${base === undefined ? "–" : short(base)})`;
  return {
    name: "ab-matchmaker",
    title: `matchmaker: this tree, and ${name} in brackets; medians of ${turns}`,
    text: [
      textTable(
        [...labelHead, ...shown.map(([head]) => head)],
        compared.map(({ planned, mine, base }) => [
          ...labelOf(planned),
          ...shown.map(([, figure]) => cell(mine[figure], base[figure])),
        ]),
      ),
      ...failures,
      ...withoutRedis(),
    ].join("\n"),
    data: {
      base: name,
      rows: compared.map(({ planned: { store, job }, ...both }) => ({ store, ...job, ...both })),
    },
    plots: [],
    missed: 0,
  };
}

/** Returns the line with the error that ended a process; by default the whole message. */
function reasonOf(error: unknown): string {
  const message = String(error);
  return /^\w*Error: (?!Command failed).*$/m.exec(message)?.[0] ?? message;
}

function medians(all: readonly Figures[]): Figures {
  return Object.fromEntries(
    columns.flatMap(([, figure]) => {
      const values = all.map((figures) => figures[figure]).filter((value) => value !== undefined);
      return values.length === 0 ? [] : [[figure, median(values)]];
    }),
  );
}

const labelHead = ["state", "tickets", "", "servers"];

function labelOf({ store, job }: Planned): string[] {
  return [store, job.tickets.toLocaleString("en"), describe(job), job.servers.toLocaleString("en")];
}

function tableOf(rows: readonly Row[]): string {
  return textTable(
    [...labelHead, ...columns.map(([head]) => head)],
    rows.map(({ planned, figures }) => [
      ...labelOf(planned),
      ...columns.map(([, figure]) => {
        const value = figures[figure];
        return value === undefined ? "" : short(value);
      }),
    ]),
  );
}

function withoutRedis(): string[] {
  return hasRedis ? [] : ["without Redis: no redis-server here; apt-get install redis-server"];
}

/**
 * Returns the exponent with which the time to assign all waiting tickets grows with their number: 1
 * is linear.
 */
function growthOf(rows: readonly Row[]): string[] {
  return (["memory", "Redis"] as const).flatMap((store) => {
    const waiting = rows.filter(
      ({ planned }) => planned.store === store && planned.job.kind === "assign",
    );
    const [first] = waiting;
    const last = waiting.findLast(
      ({ planned }) => planned.job.servers === first?.planned.job.servers,
    );
    const [slow, fast] = [first?.figures.ticketsPerSecond, last?.figures.ticketsPerSecond];
    if (first === undefined || last === undefined || first === last || !slow || !fast) {
      return [];
    }
    const times = last.planned.job.tickets / first.planned.job.tickets;
    const longer = times * (slow / fast);
    const power = Math.log(longer) / Math.log(times);
    return `${store}: ${times} times as many waiting tickets take ${short(longer)} times as long, n^${power.toFixed(2)}`;
  });
}
