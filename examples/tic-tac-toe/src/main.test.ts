// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";

it("refuses an illegal move and accepts the next legal one", () => {
  const main = new URL("../dist/main.js", import.meta.url);
  const output = execFileSync(process.execPath, [main.pathname], { encoding: "utf8" });
  expect(output.trim().split("\n").sort()).toEqual([
    "one: terminated, reward 1",
    "two: expected a free field, received 4",
    "two: terminated, reward -1",
  ]);
});
