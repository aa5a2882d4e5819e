// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Result } from "./checks.ts";
import { root } from "./run.ts";

/** Summary of a package. */
export interface Row {
  readonly name: string;
  readonly packedBytes: number;
  /** Bytes of its files and those of all its dependencies; NaN if it could not be installed. */
  readonly installedBytes: number;
  /** The versions of Node on which every module was imported and required. */
  readonly nodes: readonly string[];
}

/** Prints a line for each package. */
export function printTable(rows: readonly Row[]): void {
  const width = Math.max(...rows.map(({ name }) => name.length));
  const print = (name: string, packed: string, installed: string, nodes: string): void => {
    const line = [name.padEnd(width), packed.padStart(10), installed.padStart(23), ` ${nodes}`];
    process.stdout.write(`${line.join(" ")}\n`);
  };
  process.stdout.write("\n");
  print("package", "packed", "with its dependencies", "on Node");
  for (const { name, packedBytes, installedBytes, nodes } of rows) {
    print(name, size(packedBytes), size(installedBytes), nodes.join(" ") || "none");
  }
  process.stdout.write("\n");
}

/** Writes a report in Vitest's format to the folder `reports`, for scripts/sum-reports.mjs. */
export function writeReport(rows: readonly Row[], results: readonly Result[]): void {
  const failed = results.filter(({ error }) => error !== undefined).length;
  const report = {
    success: failed === 0,
    numTotalTests: results.length,
    numPassedTests: results.length - failed,
    numFailedTests: failed,
    numPendingTests: 0,
    numTodoTests: 0,
    packages: rows,
    testResults: [
      {
        name: join(root, "tests/release"),
        status: failed === 0 ? "passed" : "failed",
        message: "",
        assertionResults: results.map(({ name, error }) => ({
          ancestorTitles: [],
          title: name,
          status: error === undefined ? "passed" : "failed",
          failureMessages: error === undefined ? [] : [error],
        })),
      },
    ],
  };
  const folder = join(root, "tests/release/reports");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "release.json"), `${JSON.stringify(report, undefined, 2)}\n`);
}

function size(bytes: number): string {
  return `${Math.round(bytes / 1000).toLocaleString("en")} kB`;
}
