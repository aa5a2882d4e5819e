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

/** Formats a result as one line, followed by the mismatch or the reason why it was skipped. */
export function resultText(result: CheckResult): string {
  const { id, title, section, outcome } = result;
  const head = `${words[outcome.kind].padEnd(5)} ${id.padEnd(30)} ${title}`;
  switch (outcome.kind) {
    case "passed":
      return head;
    case "not-applicable":
      return `${head}\n        not checked: ${outcome.reason}`;
    case "unexpected-pass":
      return `${head}\n        it passes: remove it from "knownFailing" in the config`;
    default:
      return [
        head,
        `        expected: ${outcome.expected}`,
        `        received: ${outcome.received}`,
        `        specified in: ${section}`,
      ].join("\n");
  }
}

/** Formats the counts of a report as one line. */
export function summaryText({ address, protocol, counts, results }: ConformanceReport): string {
  const seconds = results.reduce((sum, { milliseconds }) => sum + milliseconds, 0) / 1000;
  return [
    `${address} over ${protocol}: ${counts.passed} passed`,
    `${counts.failed + counts["unexpected-pass"]} failed`,
    `${counts["known-failure"]} known to fail`,
    `${counts["not-applicable"]} not applicable (${seconds.toFixed(1)} s)`,
  ].join(", ");
}

/** Formats a report as text: checks that did not pass, or `all`, then the summary. */
export function reportText(report: ConformanceReport, all: boolean): string {
  const { results, address, protocol } = report;
  const played = results.filter(({ outcome }) => outcome.kind !== "not-applicable");
  const shown = played.filter(({ outcome }) => all || outcome.kind !== "passed");
  return [
    `Conformance of the server at ${address} with dm_env_rpc, over ${protocol}`,
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

/** Lists the skipped checks, grouped by reason. */
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

/** Explains the words of the shown results and links their documents. */
function legend(shown: readonly CheckResult[]): readonly string[] {
  const wrong = shown.filter(({ outcome }) => outcome.kind !== "passed");
  const names = (Object.keys(documents) as SpecDocument[]).filter((name) =>
    wrong.some(({ section }) => section.startsWith(name)),
  );
  return [
    ...(wrong.some(({ outcome }) => outcome.kind === "known-failure")
      ? ['known: it fails, as "knownFailing" in the config expects']
      : []),
    ...names.map((name) => `${name}: ${documents[name]}`),
  ];
}

/** Formats a finished check as a line of a log. */
export function progressLine(
  { id, outcome, milliseconds }: CheckResult,
  done: number,
  total: number,
): string {
  const count = `${String(done).padStart(String(total).length)}/${total}`;
  return `${count}  ${words[outcome.kind].padEnd(5)} ${id} (${Math.round(milliseconds)} ms)`;
}

const barWidth = 24;

/** Formats a progress bar with the id of the running check, for a line that a terminal overwrites. */
export function progressText(done: number, total: number, id: string): string {
  const filled = total === 0 ? barWidth : Math.round((done / total) * barWidth);
  const bar = `${"█".repeat(filled)}${"░".repeat(barWidth - filled)}`;
  return `[${bar}] ${String(done).padStart(String(total).length)}/${total}  ${id}`;
}
