// SPDX-License-Identifier: Apache-2.0
import type { CheckResult, ConformanceReport } from "../run.ts";

/** Formats the report as JSON. */
export function jsonReport(report: ConformanceReport): string {
  return `${JSON.stringify(report, null, 2)}\n`;
}

/** Formats the report as JUnit XML. */
export function junitReport(report: ConformanceReport): string {
  const { results, counts, address, protocol } = report;
  const seconds = results.reduce((sum, { milliseconds }) => sum + milliseconds, 0) / 1000;
  const name = attribute(`dm_env_rpc conformance of ${address} over ${protocol}`);
  const head =
    `<testsuite name="${name}" tests="${results.length}" ` +
    `failures="${counts.failed + counts["unexpected-pass"]}" errors="0" ` +
    `skipped="${counts["not-applicable"] + counts["known-failure"]}" time="${seconds.toFixed(3)}">`;
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    "<testsuites>",
    head,
    ...results.map(testCase),
    "</testsuite>",
    "</testsuites>",
    "",
  ].join("\n");
}

function testCase({ id, title, section, outcome, milliseconds }: CheckResult): string {
  const open = `<testcase classname="${attribute(id)}" name="${attribute(title)}" time="${(milliseconds / 1000).toFixed(3)}"`;
  switch (outcome.kind) {
    case "passed":
      return `${open}/>`;
    case "not-applicable":
      return `${open}><skipped message="${attribute(outcome.reason)}"/></testcase>`;
    case "unexpected-pass":
      return `${open}><failure message="it is known to fail, and passes"/></testcase>`;
    default: {
      const text = `expected ${outcome.expected}, received ${outcome.received} (${section})`;
      const element = outcome.kind === "failed" ? "failure" : "skipped";
      return `${open}><${element} message="${attribute(text)}"/></testcase>`;
    }
  }
}

function attribute(text: string): string {
  return [...text]
    .map((character) => {
      const code = character.codePointAt(0) ?? 0;
      if (code < 0x20) {
        return " ";
      }
      return '<>&"'.includes(character) ? `&#${code};` : character;
    })
    .join("");
}
