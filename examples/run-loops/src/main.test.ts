// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";

it("behaviour 50: the three run loops of dm_env run as written", () => {
  const main = new URL("../dist/main.js", import.meta.url);
  const output = execFileSync(process.execPath, [main.pathname], { encoding: "utf8" });
  // A sequence has nine steps and a first one, so a hundred steps are ten sequences; the reset made the first step.
  expect(output).toBe(
    [
      "continuing: 10 sequences in 100 steps",
      "set number: 5 sequences",
      "manual truncation: 5 sequences of 4 steps",
      "",
    ].join("\n"),
  );
});
