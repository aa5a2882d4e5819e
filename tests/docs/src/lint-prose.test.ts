// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { root } from "./pages.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "prose-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Checks a file of the given lines, and returns the place and text of each finding. */
function check(name: string, ...lines: string[]): { status: number | null; found: string[] } {
  writeFileSync(join(folder, name), `${lines.join("\n")}\n`);
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(root, "scripts/lint-prose.mjs"), name],
    { cwd: folder, encoding: "utf8" },
  );
  expect(stderr).toBe("");
  const found = stdout.split("\n").filter((line) => line !== "");
  return { status, found: found.map((line) => line.replace(/: write .*/, "")) };
}

describe("lint-prose", () => {
  it("accepts plain sentences", () => {
    const { status, found } = check(
      "plain.ts",
      "/** Events the server emits. There is no world without a clock. */",
      "export const events = 1; // It is no longer open.",
    );
    expect(found).toEqual([]);
    expect(status).toBe(0);
  });

  it("reports the place of a phrase and what to write instead", () => {
    writeFileSync(join(folder, "phrase.ts"), "const a = 1;\n  // a bound that is none\n");
    const { status, stdout } = spawnSync(
      process.execPath,
      [join(root, "scripts/lint-prose.mjs"), "phrase.ts"],
      { cwd: folder, encoding: "utf8" },
    );
    expect(stdout).toMatch(/^phrase\.ts:2:19: "is none": write "is not a …"/);
    expect(status).toBe(1);
  });

  it("refuses a noun clause at the beginning of a docstring, and only there", () => {
    const { found } = check(
      "opening.mjs",
      "/** What it sends. */",
      "export const a = 1;",
      "/**",
      " * How many. Who reads it sees what it is.",
      " */",
      "export const b = 2;",
      "// What an object has is often named elsewhere.",
    );
    expect(found).toEqual(['opening.mjs:1:5: "What"', 'opening.mjs:4:4: "How"']);
  });

  it("finds a phrase that continues on the next line of a comment", () => {
    const { found } = check("lines.ts", "const a = 1;", "// It is read, and", "// not written.");
    expect(found).toEqual(['lines.ts:2:14: ", and not"']);
  });

  it("ignores strings, code in comments and examples", () => {
    const { found } = check(
      "code.ts",
      "const text = '// nobody' + `/* nobody */`;",
      "const pattern = /\\/* nobody/;",
      "/**",
      " * Sends `nobody` to {@link somebody}.",
      " *",
      " * @example",
      " * // nobody",
      " *",
      " * @returns What somebody sent.",
      " */",
      "export const code = [text, pattern];",
    );
    expect(found).toEqual(['code.ts:9:18: "somebody"']);
  });

  it("reads docstrings and comments of Python", () => {
    const { found } = check(
      "agent.py",
      '"""What it does."""',
      "text = '# nobody'",
      "value = '''",
      "nobody",
      "'''  # for nobody",
    );
    expect(found).toEqual(['agent.py:1:4: "What"', 'agent.py:5:12: "nobody"']);
  });

  it("reads the comments of a proto file", () => {
    const { found } = check(
      "a.proto",
      "// How a call ends.",
      'message End { string text = 1 [deprecated_text = "// nobody"]; /* owed */ }',
    );
    expect(found).toEqual(['a.proto:1:4: "How"', 'a.proto:2:67: "owed"']);
  });

  it("reads the prose of a page, tables included, without its code and the targets of links", () => {
    const { found } = check(
      "page.md",
      "# For nobody",
      "",
      "| a | b |",
      "|---|---|",
      "| `nobody` | whoever |",
      "",
      "```sh",
      "nobody",
      "```",
      "",
      "A [link](nobody.md) that",
      "is none.",
    );
    expect(found).toEqual([
      'page.md:1:7: "nobody"',
      'page.md:5:14: "whoever"',
      'page.md:12:1: "is none"',
    ]);
  });
});
