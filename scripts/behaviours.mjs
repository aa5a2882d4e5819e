// SPDX-License-Identifier: Apache-2.0
// Lists the promises of docs/behaviours.md, each with the tests that carry its
// number in their names: `behaviour 41: …`, `behaviour 2 and 3: …` in *.test.ts,
// `test_behaviour_41_…` in Python. Exits 1 when a promise that must have a test
// has none, or a test names an unknown promise. Skipped tests do not count.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

/** The promises that must have a test, with the part that keeps them. */
const enforced = [
  { from: 1, to: 46, who: "codec, transport and server" },
  { from: 47, to: 59, who: "client" },
  { from: 60, to: 63, who: "server" },
  { from: 67, to: 67, who: "client" },
  { from: 68, to: 73, who: "server" },
  { from: 74, to: 74, who: "transport" },
  { from: 75, to: 76, who: "server" },
];

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const tests = new Map();
for (const top of ["packages", "apps", "examples", "tests"]) {
  collect(join(root, top));
}

const promises = readPromises();
let missing = 0;
for (const [number, text] of promises) {
  const names = tests.get(number) ?? [];
  tests.delete(number);
  const must = enforced.some(({ from, to }) => number >= from && number <= to);
  if (names.length === 0 && must) {
    missing += 1;
  }
  process.stdout.write(`${String(number).padStart(2)}. ${shorten(text)}\n`);
  if (names.length === 0) {
    process.stdout.write(`      ${must ? "NO TEST" : "no test yet"}\n`);
  }
  for (const name of names) {
    process.stdout.write(`      ${name}\n`);
  }
}
for (const [number, names] of tests) {
  process.stdout.write(`there is no promise ${number}, but these tests name it:\n`);
  for (const name of names) {
    process.stdout.write(`      ${name}\n`);
  }
}
process.stdout.write(`${promises.size} promises, ${missing} without a test\n`);
process.exitCode = missing > 0 || tests.size > 0 ? 1 : 0;

function readPromises() {
  const found = new Map();
  for (const line of readFileSync(join(root, "docs/behaviours.md"), "utf8").split("\n")) {
    const [, number, text] = /^(\d+)\. (.*)$/.exec(line) ?? [];
    if (number !== undefined) {
      found.set(Number(number), text);
    }
  }
  return new Map([...found].sort(([a], [b]) => a - b));
}

function collect(folder) {
  if (!existsSync(folder)) {
    return;
  }
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      if (!["node_modules", "dist", "reports"].includes(entry.name)) {
        collect(path);
      }
    } else if (entry.name.endsWith(".test.ts")) {
      add(path, /(["'`])((?:(?!\1).)*?\bbehaviours? \d(?:(?!\1).)*)\1/g, 2);
    } else if (/^test_.*\.py$/.test(entry.name)) {
      add(path, /^(?:async )?def (test_behaviours?_\d\w*)/gm, 1);
    }
  }
}

function add(path, pattern, group) {
  const source = readFileSync(path, "utf8");
  for (const match of source.matchAll(pattern)) {
    if (/\.(skip|todo)\(\s*$/.test(source.slice(0, match.index))) {
      continue;
    }
    const name = match[group];
    for (const number of numbersOf(name.replaceAll("_", " "))) {
      if (!tests.has(number)) {
        tests.set(number, []);
      }
      tests.get(number).push(`${relative(root, path)}: ${name}`);
    }
  }
}

/** "behaviour 2 and 3", "behaviours 41, 43 and 44" */
function numbersOf(name) {
  const [, list = ""] = /\bbehaviours? (\d+(?:(?:,| and|, and) \d+)*)/.exec(name) ?? [];
  return [...list.matchAll(/\d+/g)].map(([digits]) => Number(digits));
}

function shorten(text) {
  return text.length <= 90 ? text : `${text.slice(0, 89)}…`;
}
