// SPDX-License-Identifier: Apache-2.0
import { existsSync, globSync, readFileSync } from "node:fs";
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

/** The code of each class and interface of the road. */
const codeOf = new Map(
  globSync(
    ["packages/server/src/{definition,engine,session}/*.ts", "packages/transport/src/**/*.ts"],
    {
      cwd: root,
      exclude: (path) => path.endsWith(".test.ts"),
    },
  ).flatMap((path) => {
    const code = readFileSync(root + path, "utf8");
    const types = code.matchAll(/^export (?:abstract )?(?:class|interface) (\w+)[\s\S]*?^\}/gm);
    return [...types].map(([text, name = ""]) => [name, text] as const);
  }),
);

/** Returns the code of a member of a class or interface; undefined if it has no such member. */
function memberOf(type: string, name: string): string | undefined {
  const member = new RegExp(
    `^  (?:(?:protected|readonly|get) )*${name}\\b(?:.*;$|[\\s\\S]*?^  \\})`,
    "m",
  );
  return member.exec(codeOf.get(type) ?? "")?.[0];
}

/** True if code calls a function; one that may be undefined, too. */
function calls(code: string | undefined, name: string): boolean {
  return new RegExp(`(?<![\\w#])${name}(?:\\?\\.)?\\(`).test(code ?? "");
}

/** A box of the road: a type, and functions of it that call each other. */
interface Box {
  readonly type: string;
  readonly functions: readonly string[];
}

const roadLines = blocks.flatMap(({ language, lines }) => (language === "mermaid" ? lines : []));
const boxes = new Map<string, Box>(
  [...roadLines.join("\n").matchAll(/\b(\w+)\["(\w+)\.([^"]+)"\]/g)].map(
    ([, id = "", type = "", names = ""]) => [id, { type, functions: names.split(" → ") }],
  ),
);
/** The arrows between boxes, with the callback in their text. */
const arrows = roadLines.flatMap((line) => {
  const ids = line
    .replaceAll(/\["[^"]*"\]|\(\["[^"]*"\]\)|\(\("[^"]*"\)\)/g, "")
    .split(/\s*(-->(?:\|"[^"]*"\|)?)\s*/);
  return ids.flatMap((arrow, at) => {
    const [from, to] = [ids[at - 1]?.trim(), ids[at + 1]?.trim()];
    const [, callback] = /(\w+)\(\)/.exec(arrow) ?? [];
    return at % 2 === 1 && from && to ? [{ from, to, callback }] : [];
  });
});

it("every function on the road of a step exists, and calls the next one", () => {
  expect(boxes.size).toBeGreaterThan(20);
  const faults = [...boxes.values()].flatMap(({ type, functions }) =>
    functions.flatMap((name, at) => {
      const before = functions.slice(0, at).map((caller) => memberOf(type, caller));
      const isCalled = at === 0 || before.some((code) => calls(code, name));
      return memberOf(type, name) === undefined || !isCalled ? [`${type}.${name}`] : [];
    }),
  );
  expect(faults).toEqual([]);
});

it("every arrow on the road of a step is a call", () => {
  expect(arrows.length).toBeGreaterThan(30);
  const clocks = globSync("packages/server/src/clocks/*.ts", { cwd: root })
    .filter((path) => !path.endsWith(".test.ts"))
    .map((path) => readFileSync(root + path, "utf8"))
    .join("\n");
  const faults = arrows.filter(({ from, to, callback }) => {
    const [caller, called] = [boxes.get(from), boxes.get(to)];
    const name = callback ?? called?.functions[0];
    if (caller === undefined || name === undefined) {
      return false; // From a timer or a callback, or to the author's code.
    }
    const last = caller.functions.at(-1) ?? "";
    switch (caller.type) {
      case "ClockDriver": // A clock: it decides through its sequence.
        return !calls(clocks, `sequence.${name}`);
      case "SequenceControl": // The engine carries the decision out.
        return !calls(memberOf("Engine", "#clockDecisions"), `this.${name}`);
      default:
        return !calls(memberOf(caller.type, last), name);
    }
  });
  expect(faults).toEqual([]);
});

it("every function that ARCHITECTURE.md names exists", () => {
  const named = spans.flatMap(({ text }) => {
    const [, type = "", name = ""] = /^([A-Z]\w+)\.(#?[a-z]\w*)$/.exec(text) ?? [];
    return codeOf.has(type) ? [{ type, name }] : [];
  });
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter(({ type, name }) => memberOf(type, name) === undefined)).toEqual([]);
});
