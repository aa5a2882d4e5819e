// SPDX-License-Identifier: Apache-2.0
import type { Effort, Mode } from "../harness/compare.ts";
import { type Pair, startPair } from "../harness/pair.ts";
import { type Summary, summarize } from "../harness/statistics.ts";
import { short, textTable } from "../harness/table.ts";
import type { Panel } from "../plot/line-chart.ts";

/** Numbers of servers; each is a process, with agents in a process of their own. */
const sizes: readonly number[] = [1, 2, 4];

const modes: readonly Mode[] = [
  { id: "pipe64", label: "1 connection each, 64 in flight", connections: 1, inFlight: 64 },
  { id: "lock8", label: "8 connections each, lock-step", connections: 8, inFlight: 1 },
];

interface Sample {
  readonly stepsPerSecond: number;
  /** CPU microseconds of a step on both sides. */
  readonly cpuMicros: number;
}

interface Row {
  readonly mode: string;
  readonly processes: number;
  /** Total of all servers. */
  readonly stepsPerSecond: Summary;
  readonly cpuMicros: Summary;
}

/** Throughput of one and of several server processes. */
export interface ProcessesResult {
  readonly text: string;
  readonly rows: readonly Row[];
  readonly panels: readonly Panel[];
}

/** Measures servers that are played at the same time; all sizes in turns, forward and backward. */
export async function measureProcesses(
  { repetitions, turnMs, warmUpMs }: Effort,
  onProgress: (text: string) => void,
): Promise<ProcessesResult> {
  await using pairs = new AsyncDisposableStack();
  const ready: Pair[] = [];
  for (let i = 0; i < Math.max(...sizes); i++) {
    const pair = pairs.use(await startPair({}, { server: "ours", client: "ours" }, "board"));
    for (const { id, connections, inFlight } of modes) {
      await pair.connect(id, connections, inFlight);
      await play([pair], id, inFlight, warmUpMs);
    }
    ready.push(pair);
  }
  const samples = new Map<string, Sample[]>();
  const thereAndBack = [sizes, [...sizes].reverse()];
  for (let repetition = 0; repetition < repetitions; repetition++) {
    for (const { id, inFlight } of modes) {
      for (const size of thereAndBack[repetition % 2] ?? []) {
        onProgress(`${size} server processes, turn ${repetition + 1} of ${repetitions}`);
        const sample = await play(ready.slice(0, size), id, inFlight, turnMs);
        const key = `${id} ${size}`;
        samples.set(key, [...(samples.get(key) ?? []), sample]);
      }
    }
  }
  const rows = modes.flatMap(({ id }) => sizes.map((size) => rowOf(id, size, samples)));
  return {
    rows,
    text: modes.map((mode) => section(mode, rowsOf(mode, rows))).join("\n\n"),
    panels: modes.map((mode) => panel(mode, rowsOf(mode, rows))),
  };
}

/** Plays all of them at once. */
async function play(
  pairs: readonly Pair[],
  group: string,
  inFlight: number,
  durationMs: number,
): Promise<Sample> {
  const played = await Promise.all(
    pairs.map(async ({ server, client }) => {
      const before = await server.ask("usage", {});
      const result = await client.ask("play", { group, inFlight, durationMs });
      const after = await server.ask("usage", {});
      return { ...result, cpuMs: result.cpuMs + after.cpuMs - before.cpuMs };
    }),
  );
  const sum = (of: (result: (typeof played)[number]) => number): number =>
    played.reduce((total, result) => total + of(result), 0);
  return {
    stepsPerSecond: sum(({ steps, elapsedMs }) => (steps * 1000) / elapsedMs),
    cpuMicros: (sum(({ cpuMs }) => cpuMs) * 1000) / sum(({ steps }) => steps),
  };
}

function rowOf(mode: string, processes: number, samples: ReadonlyMap<string, Sample[]>): Row {
  const taken = samples.get(`${mode} ${processes}`) ?? [];
  return {
    mode,
    processes,
    stepsPerSecond: summarize(taken.map(({ stepsPerSecond }) => stepsPerSecond)),
    cpuMicros: summarize(taken.map(({ cpuMicros }) => cpuMicros)),
  };
}

const rowsOf = (mode: Mode, rows: readonly Row[]): Row[] =>
  rows.filter((row) => row.mode === mode.id);

function section({ label }: Mode, rows: readonly Row[]): string {
  const one = rows[0]?.stepsPerSecond.median ?? Number.NaN;
  return textTable(
    [`Server processes: ${label}`, "steps/s of all", "min", "max", "to one", "µs CPU"],
    rows.map(({ processes, stepsPerSecond: { median, min, max }, cpuMicros }) => [
      `${processes} ${processes === 1 ? "process" : "processes"}`,
      short(median),
      short(min),
      short(max),
      `${(median / one).toFixed(2)}×`,
      short(cpuMicros.median),
    ]),
  );
}

function panel({ label }: Mode, rows: readonly Row[]): Panel {
  const points = rows.map(
    ({ processes, stepsPerSecond }) => [processes, stepsPerSecond.median] as const,
  );
  return {
    title: `Steps a second: ${label}`,
    xLabel: "server processes",
    lines: [{ label: "ours", color: "#0b6bcb", points }],
  };
}
