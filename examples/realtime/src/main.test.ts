// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";

it("behaviour 56: runs the agent loop of OpenAI Universe over worlds that do not wait for the agent", () => {
  const main = new URL("../dist/main.js", import.meta.url);
  const output = execFileSync(process.execPath, [main.pathname], { encoding: "utf8" });
  const lines = output.trim().split("\n");
  expect(lines).toHaveLength(4);
  // Without the key, a stone falls for 34 ticks of a sixtieth of a second each, independent of the agent's speed.
  const idle = lines.filter((line) => line.startsWith("stone 1"));
  expect(idle.length).toBeGreaterThan(0);
  for (const line of idle) {
    expect(line).toBe("stone 1 lasted 0.6 s");
  }
});
