// SPDX-License-Identifier: Apache-2.0
// npm run mutate [-- TARGET...]: changes one expression of core code at a time, runs the tests
// that reach it, and prints how many changes each room's tests found, and the others by place.
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join, relative } from "node:path";
import { Stryker } from "@stryker-mutator/core";
import { formatScores, formatSurvivors, type Result, scoresOf } from "./report.ts";
import { defaultTargets, resolveTargets } from "./targets.ts";

/** Folder of a file, from `packages/`. */
const folderOf = (file: string): string => dirname(relative("packages", file));

const root = join(import.meta.dirname, "../../..");
const targets = process.argv.slice(2);
const packages = resolveTargets(root, targets.length === 0 ? defaultTargets : targets);

const results: Result[] = [];
for (const { name, files } of packages) {
  process.stdout.write(`\n> ${name}: ${files.length} files\n`);
  // The runner's processes read them, in vitest.config.ts.
  process.env["MUTATED_PACKAGE"] = name;
  process.env["MUTATED_ROOMS"] = [...new Set(files.map(folderOf))].join(",");
  const stryker = new Stryker({
    mutate: [...files],
    testRunner: "vitest-kept-thread",
    vitest: { configFile: "tests/mutation/vitest.config.ts" },
    plugins: [
      import.meta.resolve("@stryker-mutator/vitest-runner"),
      join(import.meta.dirname, "runner.ts"),
      join(import.meta.dirname, "ignore-prose.ts"),
    ],
    ignorers: ["prose"],
    ignorePatterns: [
      ".toolchain",
      ".turbo",
      ".venv*",
      "reports",
      "docs",
      "apps",
      "examples",
      "deploy",
    ],
    // Code that runs once per import would need every test again for each mutant.
    ignoreStatic: true,
    // Most of the time passes in tests that wait.
    concurrency: Math.min(2 * availableParallelism(), 16),
    // In addition to the time of the tests; what blocks a thread or makes a test hang ends earlier.
    timeoutMS: 15_000,
    dryRunTimeoutMinutes: 30,
    reporters: ["progress-append-only", "html", "json"],
    htmlReporter: { fileName: `tests/mutation/reports/${name}.html` },
    jsonReporter: { fileName: `tests/mutation/reports/${name}.json` },
    allowConsoleColors: false,
    cleanTempDir: "always",
  });
  for (const mutant of await stryker.runMutationTest()) {
    results.push({ ...mutant, fileName: relative(root, mutant.fileName) });
  }
}

const survivors = formatSurvivors(results, (file) => readFileSync(join(root, file), "utf8"));
if (survivors !== "") {
  process.stdout.write(`\nnot found by any test:\n${survivors}\n`);
}
process.stdout.write(`\n${formatScores(scoresOf(results))}\n`);
