// SPDX-License-Identifier: Apache-2.0
// The tests of the package in $MUTATED_PACKAGE, as the runner of src/main.ts needs them.
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Runs quick files first: most mutants fail in one of them, and nothing runs after a failure. */
class QuickFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).reverse();
  }
}

export default defineConfig({
  test: {
    name: process.env["MUTATED_PACKAGE"] ?? "",
    root: join(import.meta.dirname, "../../packages", process.env["MUTATED_PACKAGE"] ?? ""),
    include: ["src/**/*.test.ts"],
    setupFiles: [join(import.meta.dirname, "src/seed.ts")],
    sequence: { sequencer: QuickFirst },
    // Few scenarios of the model find what many find, and every mutant of the engine runs them all.
    env: { MODEL_RUNS: "20", MODEL_HTTP2_RUNS: "1", MODEL_SEED: "1" },
    // A mutant that makes a test hang fails it, long before the runner gives up on all tests.
    testTimeout: 5_000,
    hookTimeout: 5_000,
    expect: { poll: { timeout: 2_000 } },
  },
});
