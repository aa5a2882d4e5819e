// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Row } from "./bars.ts";

/** The report that scripts/sum-reports.mjs reads. */
const file: string = fileURLToPath(new URL("../../reports/attacks.xml", import.meta.url));

/** The verdict on an attack. */
export interface Verdict {
  readonly row: Row;
  /** Bars that it missed. */
  readonly missed: readonly string[];
  readonly runs: number;
}

/** Head of the table, in Markdown. */
export const tableHead: string = [
  "| attack | longest stall, ms | resident, MB | p99, ms (before, control) | worst step, ms | recovered, s | verdict |",
  "|---|---|---|---|---|---|---|",
].join("\n");

/** Formats a verdict as a line of the table. */
export function tableRow({ row, missed, runs }: Verdict): string {
  const { attack, stallMs, residentBytes, p99Ms, worstMs, recoveredMs } = row;
  const text = missed.join("; ").replace(/\s+/g, " ");
  const verdict = missed.length === 0 ? "met" : `missed: ${text}`;
  const cells = [
    attack,
    stallMs.toFixed(0),
    (residentBytes / 1e6).toFixed(0),
    `${p99Ms.toFixed(1)} (${row.beforeP99Ms.toFixed(1)}, ${row.controlP99Ms.toFixed(1)})`,
    worstMs.toFixed(0),
    recoveredMs === undefined ? "–" : (recoveredMs / 1000).toFixed(1),
    runs === 1 ? verdict : `${verdict} (best of ${runs} runs)`,
  ];
  return `| ${cells.join(" | ")} |`;
}

/** Removes the report of an earlier run, because scripts/sum-reports.mjs must not count it if this run is killed. */
export function removeReport(): void {
  rmSync(file, { force: true });
}

/** Writes the verdicts as JUnit XML. */
export function writeReport(verdicts: readonly Verdict[]): void {
  const failures = verdicts.filter(({ missed }) => missed.length > 0).length;
  const cases = verdicts.map(({ row, missed }) => {
    const message = escaped([...missed, row.seen].join("; "));
    const result = missed.length === 0 ? "" : `<failure>${message}</failure>`;
    const output = `<system-out>${escaped(row.seen)}</system-out>`;
    return `<testcase name="${escaped(row.attack)}" classname="${row.room}">${result}${output}</testcase>`;
  });
  const counts = `tests="${verdicts.length}" failures="${failures}" errors="0" skipped="0"`;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(
    file,
    `<testsuites><testsuite name="attacks" ${counts}>\n${cases.join("\n")}\n</testsuite></testsuites>\n`,
  );
}

function escaped(text: string): string {
  return text.replace(/[<>&"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
