// SPDX-License-Identifier: Apache-2.0
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { runAb } from "./ab/index.ts";
import { runBatch } from "./batch/table.ts";
import { runBrowser } from "./browser/table.ts";
import { clientSteps } from "./client/table.ts";
import { benchCodec, formatCodec } from "./codec/index.ts";
import { versionsOf } from "./harness/child.ts";
import { machine } from "./harness/machine.ts";
import { runMatchmaker } from "./matchmaker/index.ts";
import { type Options, parseOptions, type TableName, usage } from "./options.ts";
import { runGrowth } from "./tables/growth.ts";
import { largeSteps, smallSteps } from "./tables/rpc.ts";
import { runRpc } from "./tables/run-rpc.ts";
import { runServer } from "./tables/server.ts";
import type { TableResult } from "./tables/table-result.ts";

const here = dirname(fileURLToPath(import.meta.url));
const resultsFolder = join(here, "../results");
const interopPython = join(here, "../../interop/.venv/bin/python");

type Run = (options: Options, onProgress: (text: string) => void) => Promise<TableResult>;

const runs: Readonly<Record<TableName, Run>> = {
  rpc: (options, onProgress) => runRpc(smallSteps, options, onProgress),
  large: (options, onProgress) => runRpc(largeSteps, options, onProgress),
  client: (options, onProgress) => runRpc(clientSteps, options, onProgress),
  server: runServer,
  growth: runGrowth,
  matchmaker: runMatchmaker,
  browser: runBrowser,
  batch: runBatch,
  codec: async ({ quick }) => {
    const table = await benchCodec({ quick });
    const missed = table.rows.flatMap(({ goals }) => goals.filter(({ met }) => !met)).length;
    const [title = "", ...lines] = formatCodec(table).split("\n");
    return { name: "codec", title, text: lines.join("\n"), data: table.rows, plots: [], missed };
  },
};

async function main(): Promise<void> {
  const given = parseOptions(process.argv.slice(2));
  if (given.help) {
    process.stdout.write(usage);
    return;
  }
  const python = given.python ?? (existsSync(interopPython) ? interopPython : undefined);
  const options = { ...given, python: python && resolve(python) };
  const { cores, cpu } = machine();
  const versions = await versionsOf(options);
  process.stdout.write(
    `${cores} cores, ${cpu}, ${Object.entries(versions)
      .map((pair) => pair.join(" "))
      .join(", ")}\n`,
  );
  if (python === undefined) {
    process.stdout.write(
      "without the official Python package: node scripts/python.mjs --version makes its venv\n",
    );
  }
  const done: TableResult[] = [];
  for await (const result of results(options)) {
    showProgress("");
    process.stdout.write(`\n${result.title}\n\n${result.text}\n`);
    done.push(result);
  }
  await save(options, versions, done);
}

async function* results(options: Options): AsyncGenerator<TableResult> {
  if (options.base !== undefined) {
    yield* runAb(options.base, options, showProgress);
    return;
  }
  for (const name of options.tables) {
    yield await runs[name](options, showProgress);
  }
}

/** Overwrites the progress line of a terminal; without a terminal nothing is shown. */
function showProgress(text: string): void {
  if (process.stderr.isTTY) {
    process.stderr.write(`\r\x1b[K${text}`);
  }
}

async function save(
  options: Options,
  versions: Readonly<Record<string, string>>,
  tables: readonly TableResult[],
): Promise<void> {
  const report = {
    at: new Date().toISOString(),
    quick: options.quick,
    machine: machine(),
    versions,
    tables: Object.fromEntries(tables.map(({ name, title, data }) => [name, { title, data }])),
  };
  const text = `${JSON.stringify(report, undefined, 2)}\n`;
  await mkdir(resultsFolder, { recursive: true });
  const files = [join(resultsFolder, `${tables.map(({ name }) => name).join("-")}.json`)];
  if (options.json !== undefined) {
    files.push(resolve(options.json));
  }
  for (const file of files) {
    await writeFile(file, text);
  }
  for (const { name, svg } of tables.flatMap(({ plots }) => plots)) {
    const file = join(resultsFolder, `${name}.svg`);
    await writeFile(file, svg);
    files.push(file);
  }
  process.stdout.write(`\n${files.map((file) => `wrote ${file}\n`).join("")}`);
}

main().catch((error: unknown) => {
  showProgress("");
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
});
