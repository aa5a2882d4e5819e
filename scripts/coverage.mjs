// SPDX-License-Identifier: Apache-2.0
// Prints the coverage of each package and app by the tests beside its sources, from their last
// reports in reports/coverage; lcov-report/index.html there shows the lines. Code that runs only in
// other processes (programs' main.ts) does not count; packages with nothing else have no figures.
import { existsSync, readdirSync, readFileSync } from "node:fs";

const kinds = ["lines", "branches", "functions"];
const summaries = ["packages", "apps"]
  .flatMap((parent) => readdirSync(parent).map((name) => `${parent}/${name}`))
  .map((folder) => ({ folder, file: `${folder}/reports/coverage/coverage-summary.json` }))
  .filter(({ file }) => existsSync(file))
  .map(({ folder, file }) => ({ folder, total: JSON.parse(readFileSync(file, "utf8")).total }));

if (summaries.length === 0) {
  process.stderr.write("found no report of a tested package: run npm test first\n");
  process.exitCode = 1;
} else {
  print("coverage", kinds);
  const reached = summaries.filter(({ total }) => total.lines.covered > 0);
  for (const { folder, total } of summaries) {
    print(folder, total.lines.covered > 0 ? shares([total]) : ["  tested in other processes"]);
  }
  print("all", shares(reached.map(({ total }) => total)));
}

/** Returns the coverage of each kind in per cent. */
function shares(totals) {
  return kinds.map((kind) => {
    const sum = (key) => totals.reduce((all, total) => all + total[kind][key], 0);
    return `${((100 * sum("covered")) / sum("total")).toFixed(1)} %`;
  });
}

function print(name, cells) {
  process.stdout.write(`${name.padEnd(26)}${cells.map((cell) => cell.padStart(11)).join("")}\n`);
}
