// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { findCircles, importsOf } from "./import-graph.ts";

describe("the import graph", () => {
  it("has imports and re-exports of every form", () => {
    const source = [
      'import type { A } from "./a.ts";',
      'import {\n  type B,\n  c,\n} from "../b.ts";',
      'export { d } from "./d.ts";',
      'export * from "./e.ts";',
      'import "./f.ts";',
      'const { g } = await import("./g.ts");',
      'type H = import("./h.ts").H;',
      'import { x } from "vitest";',
    ].join("\n");
    expect(importsOf(source)).toEqual([
      "./a.ts",
      "../b.ts",
      "./d.ts",
      "./e.ts",
      "./f.ts",
      "./g.ts",
      "./h.ts",
    ]);
  });

  it("has a cycle of files that import one another indirectly", () => {
    const graph = new Map([
      ["a", ["b", "d"]],
      ["b", ["c"]],
      ["c", ["a"]],
      ["d", ["e"]],
      ["e", []],
    ]);
    expect(findCircles(graph)).toEqual([["a", "b", "c"]]);
  });

  it("has a cycle of a file that imports itself", () => {
    expect(findCircles(new Map([["a", ["a"]]]))).toEqual([["a"]]);
  });

  it("has no cycle if two files import a third", () => {
    const graph = new Map([
      ["a", ["b", "c"]],
      ["b", ["c"]],
      ["c", []],
    ]);
    expect(findCircles(graph)).toEqual([]);
  });
});
