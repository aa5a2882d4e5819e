// SPDX-License-Identifier: Apache-2.0
import { type Bar, cpuOf, judge, type Verdict } from "../harness/bars.ts";
import {
  type Contender,
  compare,
  type Effort,
  type Measured,
  type Mode,
} from "../harness/compare.ts";
import { megabytes, short, textTable } from "../harness/table.ts";
import type { Options } from "../options.ts";
import { type BarGroup, barChart } from "../plot/bar-chart.ts";
import type { TableResult } from "./table-result.ts";

/** A table of contenders that step over a connection. */
export interface RpcTable {
  readonly name: string;
  readonly title: string;
  readonly load: string;
  readonly sharesProcesses?: boolean;
  readonly contenders: readonly Contender[];
  readonly modes: readonly Mode[];
  readonly bars: readonly Bar[];
  readonly quick: Effort;
  readonly thorough: Effort;
}

/** Measures a table. */
export async function runRpc(
  table: RpcTable,
  options: Options,
  onProgress: (text: string) => void,
): Promise<TableResult> {
  const { python, only, profiles } = options;
  const contenders = table.contenders.filter(
    ({ id, server, client }) =>
      (only === undefined || only.includes(id)) &&
      (python !== undefined || (server?.runtime !== "python" && client.runtime !== "python")),
  );
  const modes = table.modes.filter(({ id }) => options.modes?.includes(id) ?? true);
  const effort = options.quick ? table.quick : table.thorough;
  const rows = await compare({
    load: table.load,
    sharesProcesses: table.sharesProcesses,
    contenders,
    modes,
    effort,
    python,
    profiles,
    onProgress,
  });
  const verdicts = judge(table.bars, rows);
  const sections = modes.map((mode) => section(mode, contenders, rows, verdicts));
  return {
    name: table.name,
    title: table.title,
    text: sections.join("\n\n"),
    data: { load: table.load, effort, contenders, modes, rows, verdicts },
    plots: [
      {
        name: table.name,
        svg: barChart(`${table.title}: steps a second`, plotted(modes, contenders, rows)),
      },
    ],
    missed: verdicts.filter(({ met }) => !met).length,
  };
}

function section(
  mode: Mode,
  contenders: readonly Contender[],
  rows: readonly Measured[],
  verdicts: readonly Verdict[],
): string {
  const inMode = rows.filter((row) => row.mode === mode.id);
  const ours = inMode.find((row) => row.contender === "ours");
  const labelOf = (id: string): string =>
    contenders.find((contender) => contender.id === id)?.label ?? id;
  const head = [
    mode.label,
    "steps/s",
    "min",
    "max",
    "ours to it",
    "CPU to it",
    "server µs CPU",
    "client µs CPU",
    "of it GC",
    "p50 µs",
    "p99 µs",
    "server RSS",
    "client RSS",
  ];
  const lines = inMode.map((row) => [
    labelOf(row.contender),
    short(row.stepsPerSecond.median),
    short(row.stepsPerSecond.min),
    short(row.stepsPerSecond.max),
    ours === undefined || ours === row
      ? ""
      : `${(ours.stepsPerSecond.median / row.stepsPerSecond.median).toFixed(2)}×`,
    ours === undefined || ours === row ? "" : `${(cpuOf(ours) / cpuOf(row)).toFixed(2)}×`,
    row.serverCpuMicros === undefined ? "" : short(row.serverCpuMicros.median),
    short(row.clientCpuMicros.median),
    gcOf(row),
    row.p50Micros === undefined ? "" : short(row.p50Micros.median),
    row.p99Micros === undefined ? "" : short(row.p99Micros.median),
    row.serverRssBytes === undefined ? "" : megabytes(row.serverRssBytes),
    megabytes(row.clientRssBytes),
  ]);
  const judged = verdicts
    .filter((verdict) => verdict.mode === mode.id)
    .map((verdict) => `  ${verdictText(verdict, labelOf)}`);
  return [textTable(head, lines), ...judged].join("\n");
}

/** Garbage collection on both sides. */
function gcOf({ serverGcMicros, clientGcMicros }: Measured): string {
  if (clientGcMicros === undefined) {
    return "";
  }
  return short((serverGcMicros?.median ?? 0) + clientGcMicros.median);
}

function verdictText(verdict: Verdict, labelOf: (id: string) => string): string {
  const { met, ratio, figure, bound, aim, contender, against } = verdict;
  const who = contender === "ours" ? "" : `${labelOf(contender)}: `;
  const what = figure === "cpu" ? "the CPU time of" : "the speed of";
  const sign = figure === "cpu" ? "≤" : "≥";
  const beyond = aim === undefined ? "" : `, aim ${aim}×`;
  return `${met ? "✓" : "✗"} ${who}${ratio.toFixed(2)}× ${what} ${labelOf(against)} (${sign} ${bound}×${beyond})`;
}

function plotted(
  modes: readonly Mode[],
  contenders: readonly Contender[],
  rows: readonly Measured[],
): BarGroup[] {
  return modes.map((mode) => ({
    label: mode.label,
    bars: contenders.flatMap(({ id, label }) => {
      const row = rows.find((each) => each.contender === id && each.mode === mode.id);
      if (row === undefined) {
        return [];
      }
      const { median, min, max } = row.stepsPerSecond;
      const cpu = cpuOf(row);
      return [
        {
          label,
          value: median,
          min,
          max,
          text: `${short(median)}/s, ${short(cpu)} µs CPU`,
          highlighted: id === "ours",
        },
      ];
    }),
  }));
}
