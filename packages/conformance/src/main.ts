#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
import { readFileSync, writeFileSync } from "node:fs";
import { allChecks } from "./checks/index.ts";
import { help, parseCommand } from "./cli-options.ts";
import { parseConfig } from "./config-file.ts";
import { jsonReport, junitReport } from "./report/files.ts";
import { progressLine, progressText, reportText } from "./report/table.ts";
import { runConformance } from "./run.ts";

async function main(): Promise<number> {
  const command = parseCommand(process.argv.slice(2));
  switch (command.kind) {
    case "help":
      process.stdout.write(help);
      return 0;
    case "version": {
      const manifest = new URL("../package.json", import.meta.url);
      process.stdout.write(`${JSON.parse(readFileSync(manifest, "utf8")).version}\n`);
      return 0;
    }
    case "list":
      for (const { id, title, section } of allChecks) {
        process.stdout.write(`${id.padEnd(30)} ${title} [${section}]\n`);
      }
      return 0;
    case "run":
  }
  const { address, protocol, filter, json, junit, all } = command;
  const config =
    command.config === undefined ? {} : parseConfig(readFileSync(command.config, "utf8"));
  const bar = process.stderr.isTTY === true;
  const report = await runConformance({
    address,
    protocol,
    config,
    ...(filter === undefined ? {} : { filter }),
    onCheck: ({ id }, done, total) => {
      if (bar) {
        process.stderr.write(`\r\u001b[K${progressText(done, total, id)}`);
      }
    },
    onResult: (result, done, total) => {
      if (!bar) {
        process.stderr.write(`${progressLine(result, done, total)}\n`);
      }
    },
  });
  if (bar) {
    process.stderr.write("\r\u001b[K");
  }
  process.stdout.write(reportText(report, all));
  if (json !== undefined) {
    writeFileSync(json, jsonReport(report));
  }
  if (junit !== undefined) {
    writeFileSync(junit, junitReport(report));
  }
  return report.ok ? 0 : 1;
}

main().then(
  (code) => {
    process.exitCode = code;
  },
  (error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}; see --help\n`);
    process.exitCode = 2;
  },
);
