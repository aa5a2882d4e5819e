// SPDX-License-Identifier: Apache-2.0
// Runs before each test file of a mutation test.
import fc from "fast-check";
import { afterAll, afterEach, beforeEach, expect, inject } from "vitest";
import { recordLongest } from "./durations.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Set by Stryker: `dry-run` for the first run, without a mutant. */
    readonly mode: "dry-run" | "mutant";
  }
}

// Property tests have the same cases for every mutant: what the first run found to cover a mutant must reach it again.
fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: 1 });

if (inject("mode") === "dry-run") {
  const { testPath = "" } = expect.getState();
  // Tests may replace the clock.
  const now = performance.now.bind(performance);
  let startMs = 0;
  let longestMs = 0;
  beforeEach(() => {
    startMs = now();
  });
  afterEach(() => {
    longestMs = Math.max(longestMs, now() - startMs);
  });
  afterAll(() => recordLongest(testPath, longestMs));
}
