// SPDX-License-Identifier: Apache-2.0
// Adds up the reports that the suites left in */*/reports, Vitest's JSON and JUnit XML:
//
//   node scripts/sum-reports.mjs [LOGS]
//
// LOGS is a folder with the output of each failed check; each file counts as a failure. Prints the
// last lines of these files, every failed test, a line for each suite and finally the sum, so that the
// end of a log shows the failures. Exits 1 if something failed or nothing passed.
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { relative } from "node:path";
import { stripVTControlCharacters } from "node:util";

const lastLines = 25;
const messageLines = 15;
/** Maximum lines for the messages of all failed tests together. */
const allMessagesLines = 75;

const suites = ["packages", "apps", "examples", "tests"]
  .filter((parent) => existsSync(parent))
  .flatMap((parent) => readdirSync(parent).map((name) => `${parent}/${name}`));
const reports = suites.flatMap((suite) =>
  filesOf(`${suite}/reports`).flatMap((file) => {
    const report = read(file);
    return report === undefined ? [] : [{ suite, ...report }];
  }),
);
const [logs] = process.argv.slice(2);
const checks = logs === undefined ? [] : filesOf(logs).sort((a, b) => age(a) - age(b));

for (const check of checks) {
  const log = readFileSync(check, "utf8");
  const tasks = failedTasks(log);
  if (tasks.length === 0) {
    printTail(check.slice(logs.length + 1), log);
  }
  for (const { name, output } of tasks) {
    printTail(name, output);
  }
}
const failures = reports.flatMap(({ suite, failures }) =>
  failures.map((failure) => ({ suite, ...failure })),
);
const most = Math.max(1, Math.min(messageLines, Math.floor(allMessagesLines / failures.length)));
for (const { suite, name, message } of failures) {
  print(`\nFAILED ${suite}: ${name}`);
  for (const line of ends(linesOf(message), most)) {
    print(`    ${line}`);
  }
}
if (checks.length + failures.length > 0) {
  print("");
}

const total = { passed: 0, failed: checks.length, skipped: 0 };
for (const { suite, counts } of reports) {
  print(`${suite.padEnd(28)} ${sumOf(counts)}`);
  for (const key of Object.keys(total)) {
    total[key] += counts[key];
  }
}
print(sumOf(total));
process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;

/** Reads the counts and failures of a report; undefined for any other file. */
function read(file) {
  if (file.endsWith(".xml")) {
    return readJUnit(readFileSync(file, "utf8"));
  }
  if (!file.endsWith(".json")) {
    return undefined;
  }
  let report;
  try {
    report = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    // The process that wrote it was killed.
    const failures = [{ name: file, message: String(error) }];
    return { failures, counts: { passed: 0, failed: 1, skipped: 0 } };
  }
  return report.numTotalTests === undefined ? undefined : readVitest(report);
}

function readVitest(report) {
  const failures = report.testResults.flatMap(
    ({ name: path, message, status, assertionResults }) => {
      const failed = assertionResults.filter((test) => test.status === "failed");
      const file = relative(process.cwd(), path);
      const tests = failed.map(({ ancestorTitles, title, failureMessages }) => ({
        name: [file, ...ancestorTitles, title].filter((part) => part !== "").join(" > "),
        message: failureMessages.join("\n"),
      }));
      // Outside its tests: when it was loaded, or in a hook.
      const isElsewhere = status === "failed" && (message !== "" || failed.length === 0);
      return isElsewhere ? [...tests, { name: file, message }] : tests;
    },
  );
  const isUncounted = !report.success && report.numFailedTests === 0;
  return {
    failures,
    counts: {
      passed: report.numPassedTests,
      failed: report.numFailedTests + (isUncounted ? 1 : 0),
      skipped: report.numPendingTests + report.numTodoTests,
    },
  };
}

function readJUnit(xml) {
  const sum = (attribute) =>
    [...xml.matchAll(new RegExp(`<testsuite [^>]*\\b${attribute}="(\\d+)"`, "g"))].reduce(
      (all, [, number]) => all + Number(number),
      0,
    );
  const [tests, failed, skipped] = [sum("tests"), sum("failures") + sum("errors"), sum("skipped")];
  const failures = [...xml.matchAll(/<testcase\b([^>]*[^/])>(.*?)<\/testcase>/gs)].flatMap(
    ([, attributes, inside]) => {
      const [, message] =
        inside.match(/<(?:failure|error)\b[^>]*>(.*?)<\/(?:failure|error)>/s) ?? [];
      const part = (name) => attributes.match(new RegExp(`\\b${name}="([^"]*)"`))?.[1];
      const name = [part("classname"), part("name")].filter(Boolean).join(" > ");
      return message === undefined ? [] : [{ name: unescaped(name), message: unescaped(message) }];
    },
  );
  return { failures, counts: { passed: tests - failed - skipped, failed, skipped } };
}

function unescaped(text) {
  const characters = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return text
    .replace(/&#(x?)([0-9a-f]+);/gi, (_, hex, code) =>
      String.fromCodePoint(Number.parseInt(code, hex === "" ? 10 : 16)),
    )
    .replace(/&(lt|gt|quot|apos|amp);/g, (_, name) => characters[name]);
}

/** Separates the output of turbo's failed tasks, which turbo mixes. */
function failedTasks(log) {
  const [, names = ""] = stripVTControlCharacters(log).match(/^Failed: +(.+)$/m) ?? [];
  return names.split(/, */).flatMap((name) => {
    const [owner, task] = name.split("#");
    const suite = suites.find((suite) => packageName(suite) === owner);
    const file = `${suite}/.turbo/turbo-${task?.replaceAll(":", "$colon$")}.log`;
    return existsSync(file) ? [{ name, output: readFileSync(file, "utf8") }] : [];
  });
}

function packageName(suite) {
  const manifest = `${suite}/package.json`;
  return existsSync(manifest) ? JSON.parse(readFileSync(manifest, "utf8")).name : undefined;
}

function filesOf(folder) {
  if (!existsSync(folder)) {
    return [];
  }
  return readdirSync(folder)
    .sort()
    .map((name) => `${folder}/${name}`);
}

function age(file) {
  return statSync(file).mtimeMs;
}

function printTail(name, output) {
  print(`\nThe end of what "${name}" printed, which failed:`);
  for (const line of linesOf(output).slice(-lastLines)) {
    print(`    ${line}`);
  }
}

/** Removes colours, empty lines, and stack frames of dependencies. */
function linesOf(text) {
  return stripVTControlCharacters(text)
    .split("\n")
    .filter((line) => line.trim() !== "" && !/^\s*(at|❯) .*node_modules/.test(line));
}

/** Shortens a message to its first lines, which have the error, and some of its last, which have the place. */
function ends(lines, count) {
  if (lines.length <= count) {
    return lines;
  }
  const last = Math.floor(count / 3);
  return [...lines.slice(0, count - last), ...lines.slice(lines.length - last)];
}

function sumOf({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed, ${skipped} skipped`;
}

function print(line) {
  process.stdout.write(`${line}\n`);
}
