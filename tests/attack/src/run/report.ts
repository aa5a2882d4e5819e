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
  /** The reason for which the attack may miss a bar. */
  readonly open: string | undefined;
}

/** Returns how an attack counts. */
export function statusOf({ missed, open }: Verdict): "met" | "open" | "missed" {
  if (missed.length === 0) {
    return "met";
  }
  return open === undefined ? "missed" : "open";
}

/** Head of the table, in Markdown. */
export const tableHead: string = [
  "| attack | longest stall, ms | resident, MB | p99, ms (before) | worst step, ms | recovered, s | verdict |",
  "|---|---|---|---|---|---|---|",
].join("\n");

/** Formats a verdict as a line of the table. */
export function tableRow(given: Verdict): string {
  const { row, missed, runs, open } = given;
  const { attack, stallMs, residentBytes, p99Ms, baseP99Ms, worstMs, recoveredMs } = row;
  const status = statusOf(given);
  const text = missed.join("; ").replace(/\s+/g, " ");
  const verdict =
    status === "met" ? "met" : `${status}: ${[text, open].filter(Boolean).join("; ")}`;
  const cells = [
    attack,
    stallMs.toFixed(0),
    (residentBytes / 1e6).toFixed(0),
    `${p99Ms.toFixed(1)} (${baseP99Ms.toFixed(1)})`,
    worstMs.toFixed(0),
    recoveredMs === undefined ? "–" : (recoveredMs / 1000).toFixed(1),
    runs === 1 ? verdict : `${verdict} (best of ${runs} runs)`,
  ];
  return `| ${cells.join(" | ")} |`;
}

/** Removes the report of an earlier run: if this run is killed, scripts/sum-reports.mjs must not count the old one. */
export function removeReport(): void {
  rmSync(file, { force: true });
}

/** Writes the verdicts as JUnit XML. */
export function writeReport(verdicts: readonly Verdict[]): void {
  const count = (status: ReturnType<typeof statusOf>): number =>
    verdicts.filter((verdict) => statusOf(verdict) === status).length;
  const elements = { met: undefined, open: "skipped", missed: "failure" } as const;
  const cases = verdicts.map((verdict) => {
    const { row, missed, open } = verdict;
    const element = elements[statusOf(verdict)];
    const message = escaped([...missed, open, row.seen].filter(Boolean).join("; "));
    const result = element === undefined ? "" : `<${element}>${message}</${element}>`;
    const output = `<system-out>${escaped(row.seen)}</system-out>`;
    return `<testcase name="${escaped(row.attack)}" classname="${row.room}">${result}${output}</testcase>`;
  });
  const counts = `tests="${verdicts.length}" failures="${count("missed")}" errors="0" skipped="${count("open")}"`;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(
    file,
    `<testsuites><testsuite name="attacks" ${counts}>\n${cases.join("\n")}\n</testsuite></testsuites>\n`,
  );
}

function escaped(text: string): string {
  return text.replace(/[<>&"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
