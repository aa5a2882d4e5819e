// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

const source = readFileSync(new URL("main.ts", import.meta.url), "utf8");

it("runs a sequence to its end", () => {
  const main = new URL("../dist/main.js", import.meta.url);
  const output = execFileSync(process.execPath, [main.pathname], { encoding: "utf8" });
  const lines = output.trim().split("\n");
  expect(lines.length).toBeGreaterThan(3);
  expect(lines.at(-1)).toMatch(/^at 1[2-4], reward 1$/);
  for (const line of lines.slice(0, -1)) {
    expect(line).toMatch(/reward 0$/);
  }
});

it("is what the README shows", () => {
  const readme = readFileSync(new URL("../../../README.md", import.meta.url), "utf8");
  expect(readme).toContain(`\`\`\`ts\n${source}\`\`\`\n`);
});
