// SPDX-License-Identifier: Apache-2.0
import { documents, type SpecDocument } from "../check.ts";
import type { CheckResult, ConformanceReport, Outcome } from "../run.ts";

const words: Readonly<Record<Outcome["kind"], string>> = {
  passed: "pass",
  failed: "FAIL",
  "known-failure": "known",
  "unexpected-pass": "FAIL",
  "not-applicable": "n/a",
};

/** A result in a line, and what went wrong or why it was not run in the lines below. */
export function resultText(result: CheckResult): string {
  const { id, title, section, outcome } = result;
  const head = `${words[outcome.kind].padEnd(5)} ${id.padEnd(30)} ${title}`;
  switch (outcome.kind) {
    case "passed":
      return head;
    case "not-applicable":
      return `${head}\n        not checked: ${outcome.reason}`;
    case "unexpected-pass":
      return `${head}\n        it passes: take it off "knownFailing" in the config`;
    default:
      return [
        head,
        `        expected: ${outcome.expected}`,
        `        received: ${outcome.received}`,
        `        written in: ${section}`,
      ].join("\n");
  }
}

/** What came of it all, in a line. */
export function summaryText({ address, protocol, counts, results }: ConformanceReport): string {
  const seconds = results.reduce((sum, { milliseconds }) => sum + milliseconds, 0) / 1000;
  return [
    `${address} over ${protocol}: ${counts.passed} passed`,
    `${counts.failed + counts["unexpected-pass"]} failed`,
    `${counts["known-failure"]} known to fail`,
    `${counts["not-applicable"]} not applicable (${seconds.toFixed(1)} s)`,
  ].join(", ");
}

/** The whole report for people: what is not simply well, then the summary; with `all`, what is well, too. */
export function reportText(report: ConformanceReport, all: boolean): string {
  const { results, address, protocol } = report;
  const played = results.filter(({ outcome }) => outcome.kind !== "not-applicable");
  const shown = played.filter(({ outcome }) => all || outcome.kind !== "passed");
  return [
    `Does the server at ${address} keep the rules of dm_env_rpc, over ${protocol}?`,
    ...blockOf(shown.map(resultText)),
    ...blockOf(notChecked(results)),
    ...blockOf(legend(shown)),
    "",
    summaryText(report),
    "",
  ].join("\n");
}

const blockOf = (lines: readonly string[]): readonly string[] =>
  lines.length === 0 ? [] : ["", ...lines];

/** The rules that were not checked, under the reasons why. */
function notChecked(results: readonly CheckResult[]): readonly string[] {
  const byReason = new Map<string, string[]>();
  for (const { id, title, outcome } of results) {
    if (outcome.kind !== "not-applicable") {
      continue;
    }
    const rules = byReason.get(outcome.reason) ?? [];
    rules.push(`        ${id.padEnd(30)} ${title}`);
    byReason.set(outcome.reason, rules);
  }
  return [...byReason].flatMap(([reason, rules]) => [
    `${words["not-applicable"].padEnd(5)} not checked, because ${reason}:`,
    ...rules,
  ]);
}

/** What the words mean, and where the documents are. */
function legend(shown: readonly CheckResult[]): readonly string[] {
  const wrong = shown.filter(({ outcome }) => outcome.kind !== "passed");
  const names = (Object.keys(documents) as SpecDocument[]).filter((name) =>
    wrong.some(({ section }) => section.startsWith(name)),
  );
  return [
    ...(wrong.some(({ outcome }) => outcome.kind === "known-failure")
      ? ['known: it fails, and "knownFailing" of the config says so']
      : []),
    ...names.map((name) => `${name}: ${documents[name]}`),
  ];
}

/** A result in a line, for a log that grows while the run goes on. */
export function progressLine(
  { id, outcome, milliseconds }: CheckResult,
  done: number,
  total: number,
): string {
  const count = `${String(done).padStart(String(total).length)}/${total}`;
  return `${count}  ${words[outcome.kind].padEnd(5)} ${id} (${Math.round(milliseconds)} ms)`;
}

const barWidth = 24;

/** The check that runs, and how many have run, in a line that a terminal overwrites. */
export function progressText(done: number, total: number, id: string): string {
  const filled = total === 0 ? barWidth : Math.round((done / total) * barWidth);
  const bar = `${"█".repeat(filled)}${"░".repeat(barWidth - filled)}`;
  return `[${bar}] ${String(done).padStart(String(total).length)}/${total}  ${id}`;
}
