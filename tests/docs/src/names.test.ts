// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { MatchFunctionSchema } from "@dm-env-rpc/protocol/matchmaker";
import { dtypes } from "@dm-env-rpc/tensor-codec";
import { expect, it } from "vitest";
import { readPage, root } from "./pages.ts";

it("packages/server/README.md has a row for every clock", () => {
  const source = readFileSync(`${root}packages/server/src/browser.ts`, "utf8");
  const clocks = [...source.matchAll(/\b(\w+) \} from "\.\/clocks\//g)].map(([, name]) => name);
  expect(clocks).toContain("lockstep");
  expect(inRows("packages/server/README.md")).toEqual(expect.arrayContaining(clocks));
});

it("packages/tensor-codec/README.md has a row for every dtype", () => {
  const names = Object.keys(dtypes);
  expect(inRows("packages/tensor-codec/README.md")).toEqual(expect.arrayContaining(names));
});

it.each(["packages/matchmaker/README.md", "docs/run-a-fleet.md"])(
  "%s names every match function",
  (path) => {
    const names = MatchFunctionSchema.fields.map(({ name }) => name);
    // A custom function has the operator's name.
    const builtIn = names.filter((name) => name !== "custom");
    const told = readPage(path).spans.map(({ text }) => text);
    expect(told).toEqual(expect.arrayContaining(builtIn));
  },
);

/** Returns the code in the first cell of each row of a page; of a call only its name. */
function inRows(path: string): readonly (string | undefined)[] {
  const cells = readPage(path).text.matchAll(/^\|([^|]*)\|/gm);
  return [...cells].flatMap(([, cell = ""]) =>
    [...cell.matchAll(/`(\w+)[^`]*`/g)].map(([, name]) => name),
  );
}
