// SPDX-License-Identifier: Apache-2.0
// Adds up the reports that the suites left in */*/reports: Vitest's JSON and
// JUnit XML. Prints a line a suite, then the sum; exits 1 when a test failed, none
// passed, or the argument says that as many other checks failed.
import { existsSync, readdirSync, readFileSync } from "node:fs";

const total = { passed: 0, failed: 0, skipped: 0 };
for (const parent of ["packages", "apps", "examples", "tests"]) {
  if (!existsSync(parent)) continue;
  for (const name of readdirSync(parent)) {
    const reports = `${parent}/${name}/reports`;
    if (!existsSync(reports)) continue;
    for (const file of readdirSync(reports).sort()) {
      const counts = count(`${reports}/${file}`);
      if (counts === undefined) continue;
      process.stdout.write(`${`${parent}/${name}`.padEnd(28)} ${line(counts)}\n`);
      for (const key of Object.keys(total)) total[key] += counts[key];
    }
  }
}
const others = Number(process.argv[2] ?? 0);
total.failed += others;
process.stdout.write(`${line(total)}\n`);
process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;

function count(file) {
  const text = readFileSync(file, "utf8");
  if (file.endsWith(".json")) {
    const report = JSON.parse(text);
    if (report.numTotalTests === undefined) return undefined;
    return {
      passed: report.numPassedTests,
      failed: report.numFailedTests + (report.success || report.numFailedTests > 0 ? 0 : 1),
      skipped: report.numPendingTests + report.numTodoTests,
    };
  }
  if (!file.endsWith(".xml")) return undefined;
  const sum = (attribute) =>
    [...text.matchAll(new RegExp(`<testsuite [^>]*\\b${attribute}="(\\d+)"`, "g"))].reduce(
      (all, [, number]) => all + Number(number),
      0,
    );
  const [tests, failed, skipped] = [sum("tests"), sum("failures") + sum("errors"), sum("skipped")];
  return { passed: tests - failed - skipped, failed, skipped };
}

function line({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed, ${skipped} skipped`;
}
