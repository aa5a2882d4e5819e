// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";

it("wraps a simulation that terminates or is interrupted", () => {
  const main = new URL("../dist/main.js", import.meta.url);
  const output = execFileSync(process.execPath, [main.pathname], { encoding: "utf8" });
  const lines = output.trim().split("\n");
  expect(lines).toHaveLength(6);
  // Pushed in one direction, the pole falls within about ten steps; pushed towards its fall, it stays up.
  for (const line of lines.slice(0, 3)) {
    expect(line).toMatch(/^always right: terminated after (8|9|10|11) steps$/);
  }
  for (const line of lines.slice(3)) {
    expect(line).toBe("towards the fall: interrupted after 500 steps");
  }
});
