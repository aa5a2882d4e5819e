// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";

it("steps sixteen environments as one", () => {
  const main = new URL("../dist/main.js", import.meta.url);
  const output = execFileSync(process.execPath, [main.pathname], { encoding: "utf8" });
  expect(output).toMatch(/^16 environments, observations of shape \[16\]\n/);
  // A sequence takes five to eight steps, and one more starts the next.
  const sequences = Number(/(\d+) sequences/.exec(output)?.[1]);
  expect(sequences).toBeGreaterThanOrEqual(16 * 5);
  expect(sequences).toBeLessThanOrEqual(16 * 9);
  expect(Number(/mean return (.+)/.exec(output)?.[1])).toBeGreaterThan(0.2);
});
