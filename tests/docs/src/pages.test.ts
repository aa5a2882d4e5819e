// SPDX-License-Identifier: Apache-2.0
import { existsSync, globSync } from "node:fs";
import { dirname, join } from "node:path";
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { parseConfig } from "@dm-env-rpc/conformance";
import { MatchProfileSchema } from "@dm-env-rpc/protocol/matchmaker";
import { describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { commandsOf, faultOf, flagsOf } from "./commands.ts";
import { allPages, at, type Block, type Page, readPage, root } from "./pages.ts";

/** Languages that are checked, here, in tests/browser or in tests/interop, and plain text, which shows output. */
const languages: ReadonlySet<string> = new Set([
  ...["ts", "json", "yaml", "sh", "python", "html", "mermaid", "text", ""],
]);

/** Parsers of files that pages show and programs read. */
const readers: Readonly<Record<string, (text: string) => unknown>> = {
  "my-server.json": parseConfig,
  "profiles.json": (text) =>
    (JSON.parse(text) as JsonValue[]).map((profile) => fromJson(MatchProfileSchema, profile)),
};

const pages = allPages();

describe.each(pages.map((page) => [page.path, page] as const))("%s", (_path, page) => {
  it("shows code only in checked languages", () => {
    const others = page.blocks.filter(({ language }) => !languages.has(language));
    expect(others.map(({ language, line }) => `${at(page, line)}: ${language}`)).toEqual([]);
  });

  it("shows valid data", () => {
    const faults = page.blocks.map((block) => dataFault(block));
    expect(whereNot(page, page.blocks, faults)).toEqual([]);
  });

  it("shows commands that exist", () => {
    const commands = commandsOf(page);
    const faults = commands.map((command) => faultOf(page, command));
    expect(whereNot(page, commands, faults)).toEqual([]);
  });

  it("has no broken links", () => {
    const faults = page.links.map(({ target }) => linkFault(page, target));
    expect(whereNot(page, page.links, faults)).toEqual([]);
  });
});

it.each(globSync("apps/*", { cwd: root }))(
  "%s/README.md names exactly the flags of the app",
  (app) => {
    const { spans } = readPage(`${app}/README.md`);
    const named = spans.flatMap(({ text }) => /^--[a-z0-9-]+/.exec(text) ?? []);
    expect(new Set(named)).toEqual(flagsOf(`${app}/dist/main.js`));
  },
);

function dataFault({ language, lines, file }: Block): string | undefined {
  const text = lines.join("\n");
  try {
    if (language === "json") {
      JSON.parse(text);
    }
    if (language === "yaml") {
      for (const { errors } of parseAllDocuments(text)) {
        if (errors[0] !== undefined) {
          throw errors[0];
        }
      }
    }
    if (file !== undefined) {
      readers[file]?.(text);
    }
  } catch (error) {
    return String(error);
  }
  return undefined;
}

function linkFault(page: Page, target: string): string | undefined {
  if (/^https?:/.test(target)) {
    return undefined;
  }
  const [file = "", anchor] = target.split("#");
  const path = file === "" ? page.path : join(dirname(page.path), file);
  if (!existsSync(root + path)) {
    return `there is no ${path}`;
  }
  if (anchor === undefined) {
    return undefined;
  }
  const linked = pages.find((other) => other.path === path);
  return linked?.anchors.has(anchor) ? undefined : `${path} has no heading #${anchor}`;
}

function whereNot(
  page: Page,
  places: readonly { readonly line: number }[],
  faults: readonly (string | undefined)[],
): string[] {
  return places.flatMap(({ line }, index) => {
    const fault = faults[index];
    return fault === undefined ? [] : [`${at(page, line)}: ${fault}`];
  });
}
