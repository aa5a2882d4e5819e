// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import { expect, test } from "vitest";
import { createVitest, type Vitest } from "vitest/node";
import { recordLongest } from "./durations.ts";
import { blockedMessage, keptThreadPlugin } from "./kept-thread.ts";

const folder = join(import.meta.dirname, "testing");

/** Starts a vitest of the files in `testing`. */
async function fixtures(): Promise<Vitest & AsyncDisposable> {
  const vitest = await createVitest(
    "test",
    {
      config: false,
      root: folder,
      include: ["*.ts"],
      isolate: false,
      maxWorkers: 1,
      watch: false,
      reporters: [{}],
    },
    { plugins: [keptThreadPlugin()] },
  );
  return Object.assign(vitest, { [Symbol.asyncDispose]: () => vitest.close() });
}

/** Runs one file; returns what its test tells, and the errors outside of tests. */
async function run(vitest: Vitest, name: string) {
  const file = join(folder, `${name}.ts`);
  vitest.state.filesMap.clear();
  const { testModules, unhandledErrors } = await vitest.runTestFiles([file]);
  const [made] = testModules.flatMap((module) => [...module.children.allTests()]);
  return {
    state: made?.result().state,
    meta: made?.meta(),
    // As Stryker prints them.
    errors: unhandledErrors.map(String),
  };
}

test.each([
  ["a test passed in it", "plain"],
  ["a test left a timer in it, which is cleared", "leaves-timer"],
])("a thread runs the next tests, with the modules that it has loaded, if %s", async (_, name) => {
  await using vitest = await fixtures();
  const { state, meta } = await run(vitest, "plain");
  expect([state, meta]).toEqual([
    "passed",
    { threadId: expect.any(Number), loadedMs: expect.any(Number) },
  ]);
  expect((await run(vitest, name)).state).toBe("passed");
  expect((await run(vitest, "plain")).meta).toEqual(meta);
});

test.each([
  ["an open server", "leaves-server"],
  ["fake timers", "leaves-fake-timers"],
])("a thread is replaced if a test left %s in it", async (_, name) => {
  await using vitest = await fixtures();
  const { meta } = await run(vitest, "plain");
  expect((await run(vitest, name)).state).toBe("passed");
  const { state, meta: next } = await run(vitest, "plain");
  expect(state).toBe("passed");
  expect(next).not.toEqual(meta);
});

test("a thread that a test blocks is replaced, and the run ends with an error", async () => {
  await using vitest = await fixtures();
  recordLongest(join(folder, "blocks.ts"), 1);
  expect((await run(vitest, "blocks")).errors).toEqual([`Error: ${blockedMessage}`]);
  expect((await run(vitest, "plain")).state).toBe("passed");
});
