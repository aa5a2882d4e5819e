// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";

it("matches beginners with each other, and others by strength", () => {
  const main = new URL("../dist/main.js", import.meta.url);
  const output = execFileSync(process.execPath, [main.pathname], { encoding: "utf8" });
  const lines = output.trim().split("\n");
  const worlds = lines.map((line) => /^(\w+) in (tug-\d): (won|lost)$/.exec(line));
  const where = new Map(worlds.map((found) => [found?.[1], found?.[2]]));
  expect(new Set(where.values()).size).toBe(3);
  for (const [winner, loser] of [
    ["Ada", "Bob"],
    ["Finn", "Cleo"],
    ["Dan", "Eve"],
  ]) {
    expect(where.get(winner)).toBe(where.get(loser));
    expect(output).toMatch(new RegExp(`^${winner} in tug-\\d: won$`, "m"));
    expect(output).toMatch(new RegExp(`^${loser} in tug-\\d: lost$`, "m"));
  }
});
