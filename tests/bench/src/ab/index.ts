// SPDX-License-Identifier: Apache-2.0
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { CodecRow } from "../codec/index.ts";
import {
  type Contender,
  type Mode,
  type Sample,
  type Samples,
  takeSamples,
} from "../harness/compare.ts";
import { canCountInstructions } from "../harness/instructions.ts";
import { median } from "../harness/statistics.ts";
import { short, textTable } from "../harness/table.ts";
import { compareMatchmakers } from "../matchmaker/index.ts";
import type { Options } from "../options.ts";
import type { TableResult } from "../tables/table-result.ts";
import { benchOf, type Checkout, checkoutOf, workerOf } from "./checkout.ts";
import { type Ratio, ratios } from "./ratios.ts";
import { contendersOfRows, quick, type StepRows, stepRows, thorough } from "./rows.ts";

/** A row that takes more than this many times its base's CPU is marked. */
const worstRatio = 1.03;

const run = promisify(execFile);
const here = fileURLToPath(new URL("../../../..", import.meta.url));

/** One row: this tree against its base. */
interface Row {
  readonly label: string;
  /** CPU microseconds of a step on both sides. */
  readonly cpuMicros: number;
  readonly baseCpuMicros: number;
  readonly cpu: Ratio;
  readonly serverCpu: Ratio;
  readonly clientCpu: Ratio;
  readonly instructions: Ratio | undefined;
  readonly stepsPerSecond: Ratio;
  readonly p99: Ratio | undefined;
  readonly rss: Ratio;
}

/**
 * Compares this tree with an earlier commit, table by table: both play in turns, and the figures
 * are ratios of adjacent turns.
 *
 * @throws Error if the base is not found or does not build.
 */
export async function* runAb(
  base: string,
  options: Options,
  onProgress: (text: string) => void,
): AsyncGenerator<TableResult> {
  const checkout = await checkoutOf(base, onProgress);
  const countsInstructions = canCountInstructions();
  for (const table of options.tables) {
    const rows = stepRows.get(table);
    if (table === "matchmaker") {
      yield await compareMatchmakers(checkout, options, onProgress);
    } else if (rows === undefined) {
      yield await compareCodec(checkout, options.quick, onProgress);
    } else {
      yield await compareSteps(
        table,
        rows,
        checkout,
        { ...options, countsInstructions },
        onProgress,
      );
    }
  }
}

async function compareSteps(
  table: string,
  rows: StepRows,
  { name: base, folder }: Checkout,
  options: Options & { readonly countsInstructions: boolean },
  onProgress: (text: string) => void,
): Promise<TableResult> {
  const { only, modes: named, countsInstructions, profiles } = options;
  const effort = options.quick ? quick : thorough;
  const modes = rows.modes.filter(({ id }) => named?.includes(id) ?? true);
  const pairs = rows.contenders
    .filter(({ id }) => only?.includes(id) ?? true)
    .map((mine) => ({ mine, theirs: inCheckout(mine, workerOf(folder)) }));
  const samples = await takeSamples({
    load: rows.load,
    contenders: pairs.flatMap(({ mine, theirs }) => [mine, theirs]),
    modes,
    effort,
    profiles,
    countsInstructions,
    onProgress,
  });
  const compared = modes.flatMap((mode) =>
    contendersOfRows(pairs, mode).map((row) => rowOf(samples, row, mode, effort.repetitions)),
  );
  const head = [
    `this tree to ${base}`,
    "CPU µs",
    "base",
    "CPU ratio",
    "server's",
    "client's",
    "instructions",
    "steps/s",
    "p99",
    "RSS",
    "",
  ];
  const lines = compared.map((row) => [
    row.label,
    short(row.cpuMicros),
    short(row.baseCpuMicros),
    range(row.cpu),
    range(row.serverCpu),
    range(row.clientCpu),
    row.instructions === undefined ? "" : range(row.instructions),
    range(row.stepsPerSecond),
    row.p99 === undefined ? "" : range(row.p99),
    range(row.rss),
    row.cpu.median > worstRatio ? "✗" : "✓",
  ]);
  return {
    name: `ab-${table}`,
    title: `${rows.title}: ratios, their intervals of 95 % over ${effort.launches} launches or more in brackets`,
    text: textTable(head, lines),
    data: { base, effort, rows: compared },
    plots: [],
    missed: compared.filter(({ cpu }) => cpu.median > worstRatio).length,
  };
}

function inCheckout(contender: Contender, worker: string): Contender {
  const { id, server, client } = contender;
  return {
    ...contender,
    id: `${id}-base`,
    server: server && { ...server, worker },
    client: { ...client, worker },
  };
}

/** A contender of this tree and of its base. */
interface Pair {
  readonly mine: Contender;
  readonly theirs: Contender;
}

function rowOf(samples: Samples, pairs: readonly Pair[], mode: Mode, perLaunch: number): Row {
  const ours = pairs.flatMap(({ mine }) => samples.of(mine, mode));
  const base = pairs.flatMap(({ theirs }) => samples.of(theirs, mode));
  const ratioOf = (figure: (sample: Sample) => number): Ratio =>
    ratios(
      ours.map((sample, i) => [figure(sample), figure(base[i] as Sample)]),
      perLaunch,
    );
  const counted = pairs.flatMap(({ mine }) => samples.instructionsOf(mine, mode));
  const countedOfBase = pairs.flatMap(({ theirs }) => samples.instructionsOf(theirs, mode));
  const hasTails = ours.every(({ p99Micros }) => p99Micros !== undefined);
  return {
    label: `${mode.label}: ${pairs[0]?.mine.label}`,
    cpuMicros: median(ours.map(cpuOf)),
    baseCpuMicros: median(base.map(cpuOf)),
    cpu: ratioOf(cpuOf),
    serverCpu: ratioOf(({ serverCpuMicros }) => serverCpuMicros ?? 0),
    clientCpu: ratioOf(({ clientCpuMicros }) => clientCpuMicros),
    instructions:
      counted.length === 0 || counted.length !== countedOfBase.length
        ? undefined
        : ratios(
            counted.map((count, i) => [count, countedOfBase[i] as number]),
            1,
          ),
    stepsPerSecond: ratioOf(({ stepsPerSecond }) => stepsPerSecond),
    p99: hasTails ? ratioOf(({ p99Micros }) => p99Micros ?? 0) : undefined,
    rss: ratioOf(({ serverRssBytes, clientRssBytes }) => (serverRssBytes ?? 0) + clientRssBytes),
  };
}

const cpuOf = ({ serverCpuMicros, clientCpuMicros }: Sample): number =>
  (serverCpuMicros ?? 0) + clientCpuMicros;

/** Runs each side's own bench of the codec, in a new process for every turn. */
async function compareCodec(
  { name: base, folder }: Checkout,
  isQuick: boolean,
  onProgress: (text: string) => void,
): Promise<TableResult> {
  const turns = isQuick ? 3 : 8;
  const mine: CodecRow[][] = [];
  const theirs: CodecRow[][] = [];
  const sides = [
    { bench: benchOf(here), taken: mine },
    { bench: benchOf(folder), taken: theirs },
  ];
  const scratch = await mkdtemp(join(tmpdir(), "dm-env-rpc-codec-"));
  try {
    for (let turn = 0; turn < turns; turn++) {
      onProgress(`turn ${turn + 1} of ${turns}: codec`);
      for (const { bench, taken } of turn % 2 === 0 ? sides : [...sides].reverse()) {
        const json = join(scratch, "codec.json");
        await run(process.execPath, [bench, "codec", "--quick", "--json", json]);
        const report = JSON.parse(await readFile(json, "utf8")) as {
          readonly tables: { readonly codec: { readonly data: CodecRow[] } };
        };
        taken.push(report.tables.codec.data);
      }
    }
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  const microsOf = (runs: readonly CodecRow[][], what: string): number[] =>
    runs.map((rows) => rows.find((row) => row.what === what)?.ours ?? Number.NaN);
  const rows = (mine[0] ?? []).map(({ what }) => {
    const [ours, others] = [microsOf(mine, what), microsOf(theirs, what)];
    const micros = median(ours);
    const baseMicros = median(others);
    const each = ours.map((time, i): [number, number] => [time, others[i] as number]);
    return { what, micros, baseMicros, ratio: ratios(each, 1) };
  });
  const lines = rows.map(({ what, micros, baseMicros, ratio }) => [
    what,
    short(micros),
    short(baseMicros),
    range(ratio),
  ]);
  return {
    name: "ab-codec",
    title: `Codec, µs a message: ratios, their intervals of 95 % over ${turns} turns in brackets`,
    text: textTable([`this tree to ${base}`, "µs", "base", "ratio"], lines),
    data: { base, rows },
    plots: [],
    missed: 0,
  };
}

function range({ median: middle, low, high }: Ratio): string {
  return `${middle.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`;
}
