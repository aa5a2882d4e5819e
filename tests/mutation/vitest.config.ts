// SPDX-License-Identifier: Apache-2.0
// The tests of the package in $MUTATED_PACKAGE, those of $MUTATED_ROOMS first, as the runner of src/main.ts needs them.
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Runs the tests of the mutated rooms first, then quick ones: most mutants fail there, and nothing runs after a failure. */
class NearFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rooms = (process.env["MUTATED_ROOMS"] ?? "").split(",");
    const quickFirst = (await super.sort(files)).reverse();
    const isNear = ({ moduleId }: TestSpecification): boolean =>
      rooms.some((room) => moduleId.includes(`/packages/${room}/`));
    return [...quickFirst.filter(isNear), ...quickFirst.filter((file) => !isNear(file))];
  }
}

export default defineConfig({
  test: {
    name: process.env["MUTATED_PACKAGE"] ?? "",
    root: join(import.meta.dirname, "../../packages", process.env["MUTATED_PACKAGE"] ?? ""),
    include: ["src/**/*.test.ts"],
    setupFiles: [join(import.meta.dirname, "src/seed.ts")],
    sequence: { sequencer: NearFirst },
    // Few scenarios of the model find what many find, and every mutant of the engine runs them all.
    env: { MODEL_RUNS: "20", MODEL_HTTP2_RUNS: "1", MODEL_SEED: "1" },
    // A mutant that makes a test hang fails it, long before the runner gives up on all tests.
    testTimeout: 10_000,
    hookTimeout: 10_000,
    expect: { poll: { timeout: 5_000 } },
  },
});
