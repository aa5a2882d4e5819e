// SPDX-License-Identifier: Apache-2.0
// The tests of the package in $MUTATED_PACKAGE, those of $MUTATED_ROOMS first, as the runner of src/main.ts needs them.
import { join } from "node:path";
import { configDefaults, defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { keptThreadPlugin } from "./src/kept-thread.ts";

const mutatedRooms = (process.env["MUTATED_ROOMS"] ?? "").split(",");

/**
 * Tests of the matchmaker that wait for real timeouts or kill processes, seconds each, with the rooms that need them.
 * A mutant that survives has run every test, so without them a run takes minutes instead of hours.
 */
const slowTests: Readonly<Record<string, string>> = {
  "src/definition/batch/columns.test.ts": "server/src/definition/batch",
  "src/host/drain.test.ts": "server/src/host",
  "src/host/reflection.test.ts": "server/src/host",
  "src/host/spectators.test.ts": "server/src/host",
  "src/kill.test.ts": "matchmaker/src/redis",
  "src/redis/faults.test.ts": "matchmaker/src/redis",
  "src/cli/run.test.ts": "matchmaker/src/cli",
  "src/network.test.ts": "matchmaker/src/client",
  "src/reconnect.test.ts": "matchmaker/src/client",
  "src/registration/serve-registered.test.ts": "matchmaker/src/registration",
  "src/services/limits/overload.test.ts": "matchmaker/src/client",
};
/** Tests of load, which find what others find, and fail if other runs of this computer use its cores. */
const loadTests = ["src/vector/many-servers.test.ts"];
const isMutated = (room: string): boolean => mutatedRooms.includes(room);

/** Runs the tests of the mutated rooms first, then quick ones: most mutants fail there, and nothing runs after a failure. */
class NearFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const quickFirst = (await super.sort(files)).reverse();
    const isNear = ({ moduleId }: TestSpecification): boolean =>
      mutatedRooms.some((room) => moduleId.includes(`/packages/${room}/`));
    return [...quickFirst.filter(isNear), ...quickFirst.filter((file) => !isNear(file))];
  }
}

export default defineConfig({
  plugins: [keptThreadPlugin()],
  test: {
    name: process.env["MUTATED_PACKAGE"] ?? "",
    root: join(import.meta.dirname, "../../packages", process.env["MUTATED_PACKAGE"] ?? ""),
    include: ["src/**/*.test.ts"],
    exclude: [
      ...configDefaults.exclude,
      ...loadTests,
      ...Object.keys(slowTests).filter((test) => !isMutated(slowTests[test] ?? "")),
    ],
    setupFiles: [join(import.meta.dirname, "src/setup.ts")],
    sequence: { sequencer: NearFirst },
    // Modules are loaded once, not for each test file: no code under test has state outside of its objects.
    isolate: false,
    // Few scenarios of the model find what many find, and every mutant of the engine runs them all.
    env: {
      MODEL_RUNS: "20",
      MODEL_HTTP2_RUNS: "1",
      MODEL_SEED: "1",
      // The matchmaker's tests of every store repeat with Redis what they found with the store in memory.
      ...(isMutated("matchmaker/src/redis") ? {} : { STORES: "memory" }),
    },
    expect: { poll: { timeout: 3_000 } },
  },
});
