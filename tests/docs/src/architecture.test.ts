// SPDX-License-Identifier: Apache-2.0
import { existsSync, globSync } from "node:fs";
import { expect, it } from "vitest";
import { readPage, root } from "./pages.ts";

const { blocks, spans } = readPage("ARCHITECTURE.md");

/** The paths of the tree; an indented entry is in the folder above it. */
const tree = (blocks[0]?.lines ?? []).flatMap((line) => {
  const [, inset = "", names = ""] = /^( *)(\S+(?:, \S+)*)(?: {2}|$)/.exec(line) ?? [];
  return names.split(", ").map((name) => ({ name, isInside: inset !== "" }));
});
let folder = "";
const paths = tree.map(({ name, isInside }) => {
  if (!isInside) {
    folder = name;
  }
  return isInside ? folder + name : name;
});

it("every path in the tree of ARCHITECTURE.md exists", () => {
  expect(paths.length).toBeGreaterThan(30);
  expect(paths.filter((path) => !existsSync(root + path))).toEqual([]);
});

it("ARCHITECTURE.md shows every package, app and folder of tests", () => {
  const there = globSync("{proto,packages,apps,tests}/*/", { cwd: root }).map((path) => `${path}/`);
  const shown = paths.map((path) => path.replace(/\/v1\/$/, "/"));
  expect(shown).toEqual(expect.arrayContaining(there));
});

it("every file that ARCHITECTURE.md names exists", () => {
  const named = spans.map(({ text }) => text).filter((text) => /^[\w./-]+(\.ts|\/)$/.test(text));
  expect(named.length).toBeGreaterThan(30);
  const sources = globSync(["packages/*/**/", "packages/*/**/*.ts", "tests/**/*.ts"], {
    cwd: root,
    exclude: (path) => path.endsWith("node_modules") || path.endsWith("dist"),
  }).map((path) => (path.endsWith(".ts") ? path : `${path}/`));
  const missing = named.filter((name) => !sources.some((path) => `/${path}`.endsWith(`/${name}`)));
  expect(missing).toEqual([]);
});
