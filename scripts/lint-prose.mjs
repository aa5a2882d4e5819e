// SPDX-License-Identifier: Apache-2.0
// Checks the sentences of docstrings, comments and pages for phrases that are hard to read:
//
//   node scripts/lint-prose.mjs [FILE...]
//
// Without files it checks every file that Git knows, except those that prose/rules.mjs excludes. It exits 1 if it finds a
// phrase.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { proseOf } from "./prose/prose.mjs";
import { excluded, rules } from "./prose/rules.mjs";

const patterns = rules.map(({ opening, pattern, write }) => ({
  write,
  opening,
  pattern: new RegExp(
    (opening ? "^\\s*" : "") + pattern.source.replaceAll(" ", "\\s+"),
    `${pattern.flags}dg`,
  ),
}));
const files = process.argv.slice(2);
let findings = 0;
for (const path of files.length > 0 ? files : trackedFiles()) {
  const found = findingsIn(path, readFileSync(path, "utf8"));
  findings += found.length;
  for (const { line, column, text, write } of found) {
    process.stdout.write(`${path}:${line}:${column}: "${text}": write ${write}\n`);
  }
}
process.exitCode = findings > 0 ? 1 : 0;

function trackedFiles() {
  const listed = execFileSync("git", [
    "ls-files",
    "--cached",
    "--others",
    "--exclude-standard",
    "--deduplicate",
    "*.ts",
    "*.mts",
    "*.mjs",
    "*.py",
    "*.proto",
    "*.md",
  ]);
  return listed
    .toString()
    .trimEnd()
    .split("\n")
    .filter((path) => !excluded.some((folder) => path.startsWith(folder)));
}

function findingsIn(path, source) {
  const found = [];
  for (const { start, text, isDocstring } of proseOf(path, source)) {
    for (const { pattern, opening, write } of patterns) {
      if (opening && !isDocstring) {
        continue;
      }
      for (const { 0: match, index } of text.matchAll(pattern)) {
        const phrase = match.trim();
        const offset = start + index + match.indexOf(phrase);
        const before = source.slice(0, offset).split("\n");
        found.push({
          line: before.length,
          column: before.at(-1).length + 1,
          text: phrase.replace(/\s+/g, " "),
          write,
        });
      }
    }
  }
  return found.sort((a, b) => a.line - b.line || a.column - b.column);
}
