// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Page, root } from "./pages.ts";

/** A command on a page. */
export interface Command {
  readonly line: number;
  /** Its words, without variables, a prompt, or shell syntax. */
  readonly words: readonly string[];
}

const shells: ReadonlySet<string> = new Set(["sh", "bash"]);
const shown = /^(npm (run|start|test)\b|npx |node |bash |pnpm )/;

/** Programs of other projects, which are not checked. */
const foreign: ReadonlySet<string> = new Set([
  ...["cd", "mkdir", "rm", "kill", "curl", "openssl", "python", "python3", "pip", "git"],
  ...["node --test", "node --import", "npx tsc", "bun", "deno"],
  ...["redis-server", "npm init", "npm pkg", "npm create", "npx vite"],
]);

/** Returns the commands of a page: those of its shell blocks, and code in its prose that looks like one. */
export function commandsOf(page: Page): Command[] {
  const commands: Command[] = [];
  for (const { language, lines, line } of page.blocks) {
    if (!shells.has(language)) {
      continue;
    }
    let continued = "";
    for (const [index, text] of lines.entries()) {
      continued += text.replace(/\\$/, " ");
      if (text.endsWith("\\")) {
        continue;
      }
      for (const part of continued.split(/&&|\|\|?|;/)) {
        push(part, line + 1 + index);
      }
      continued = "";
    }
  }
  for (const { text, line } of page.spans) {
    if (shown.test(text)) {
      push(text, line);
    }
  }
  return commands;

  function push(text: string, line: number): void {
    const words = text
      .replace(/(^|\s)#.*$/, "")
      .replace(/\s*(&|[<>]\s*\S+)\s*$/, "")
      .replace(/^\s*(for .*|done|do\b)/, "")
      .trim()
      .split(/\s+/);
    while (/^[A-Z_]+=/.test(words[0] ?? "")) {
      words.shift();
    }
    if (words[0] !== undefined && words[0] !== "") {
      commands.push({ line, words });
    }
  }
}

/** Returns the fault of a command; undefined if it is valid. */
export function faultOf(page: Page, { words }: Command): string | undefined {
  const [path = "", first = "", ...rest] = words;
  const program = path.replace(/^\.venv\/bin\//, "");
  if (`${program} ${first}` === "pnpm install") {
    return undefined;
  }
  if (program === "pnpm" || (program === "npm" && ["run", "start", "test"].includes(first))) {
    const script = first === "run" ? (rest.shift() ?? "") : first;
    if (!Object.hasOwn(manifest("package.json")["scripts"] ?? {}, script)) {
      return `package.json has no script "${script}"`;
    }
    return first === "start" ? unknownFlags("apps/demo/dist/main.js", rest) : undefined;
  }
  if (program === "node" && !first.startsWith("-")) {
    if (page.blocks.some(({ file }) => file === first)) {
      return undefined;
    }
    // Images and packages have other layouts than the repository.
    const beside = globSync(`${dirname(page.path)}/*/${first}`, { cwd: root });
    if (!existsSync(root + first) && beside.length === 0) {
      return `there is no file ${first}`;
    }
    return first.startsWith("apps/") ? unknownFlags(first, rest) : undefined;
  }
  if (foreign.has(program) || foreign.has(`${program} ${first}`)) {
    return undefined;
  }
  if (program === "npx" || program.startsWith("dm-env-rpc-")) {
    const [name = "", ...args] = program === "npx" ? [first, ...rest] : words;
    const main = binary(name);
    return main === undefined ? `no package has the program ${name}` : unknownFlags(main, args);
  }
  if (program === "bash") {
    return existsSync(root + first) ? undefined : `there is no file ${first}`;
  }
  if (program === "kubectl" || program === "docker") {
    return missingFile(words);
  }
  if (program === "npm" && first === "install") {
    return missingPackage(rest);
  }
  return `"${program}" is no program that the pages use`;
}

/** Returns the flags in the `--help` of a program. */
export function flagsOf(main: string): ReadonlySet<string> {
  const { stdout } = spawnSync(process.execPath, [root + main, "--help"], { encoding: "utf8" });
  return new Set(stdout.match(/--[a-z0-9-]+/g));
}

function unknownFlags(main: string, args: readonly string[]): string | undefined {
  const known = flagsOf(main);
  const flags = args.filter((arg) => arg.startsWith("--") && arg !== "--");
  const unknown = flags.map((flag) => flag.replace(/=.*/, "")).filter((flag) => !known.has(flag));
  return unknown.length === 0 ? undefined : `${main} has no ${unknown.join(", ")}`;
}

function missingFile(words: readonly string[]): string | undefined {
  const missing = words.find((word) => word.startsWith("deploy/") && !existsSync(root + word));
  return missing === undefined ? undefined : `there is no ${missing}`;
}

function missingPackage(args: readonly string[]): string | undefined {
  for (const name of args) {
    const [, own] = /^@dm-env-rpc\/([a-z-]+)/.exec(name) ?? [];
    if (own !== undefined && !existsSync(`${root}packages/${own}/package.json`)) {
      return `there is no package ${name}`;
    }
  }
  return undefined;
}

/** Returns the file of a program of the packages or apps; undefined if unknown. */
function binary(name: string): string | undefined {
  for (const path of globSync("{packages,apps}/*/package.json", { cwd: root })) {
    const { name: packageName, bin } = manifest(path);
    // npx runs the only program of a package by the package's name.
    const main =
      bin?.[name] ?? (String(packageName) === name ? Object.values(bin ?? {})[0] : undefined);
    if (main !== undefined) {
      return join(dirname(path), main);
    }
  }
  return undefined;
}

function manifest(path: string): Record<string, Record<string, string> | undefined> {
  return JSON.parse(readFileSync(root + path, "utf8"));
}
