// SPDX-License-Identifier: Apache-2.0
// Runs the tests beside the sources of packages/ and apps/, and prints how much of each they
// reach; coverage/lcov-report shows the lines. What only runs in other processes (programs'
// main.ts) does not count.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { relative, sep } from "node:path";

const kinds = ["lines", "branches", "functions"];
const folders = ["packages", "apps"].flatMap((parent) =>
  readdirSync(parent).map((name) => ({ parent, name })),
);
const projects = folders.map(({ name }) => `--project=${name}`);
const { status } = spawnSync("vitest", ["run", "--coverage", ...projects], { stdio: "inherit" });
if (status !== 0) process.exit(status ?? 1);

const files = Object.entries(JSON.parse(readFileSync("coverage/coverage-summary.json", "utf8")));
print("coverage", kinds);
for (const { parent, name } of folders) {
  const within = files.filter(([path]) =>
    relative(process.cwd(), path).startsWith(`${parent}${sep}${name}${sep}`),
  );
  // Generated code and barrels have nothing to reach.
  if (within.some(([, counts]) => counts.lines.total > 0))
    print(`${parent}/${name}`, shares(within));
}
print("all", shares(files.filter(([path]) => path !== "total")));

/** How much of files is reached, in per cent, of each kind. */
function shares(counted) {
  return kinds.map((kind) => {
    const sum = (key) => counted.reduce((all, [, counts]) => all + counts[kind][key], 0);
    return `${((100 * sum("covered")) / sum("total")).toFixed(1)} %`;
  });
}

function print(name, cells) {
  process.stdout.write(`${name.padEnd(26)}${cells.map((cell) => cell.padStart(11)).join("")}\n`);
}
