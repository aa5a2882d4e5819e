// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { type Block, type Page, root } from "./pages.ts";

/** TypeScript of a page that stands for itself: a file that it names, or a program. */
export interface Program {
  readonly page: Page;
  /** Line of its first block. */
  readonly line: number;
  readonly file: string | undefined;
  readonly notRun: string | undefined;
  /** The text, each line where the page has it. */
  readonly source: string;
  /** Where it is compiled to. */
  readonly compiled: string;
}

const folder = fileURLToPath(new URL("../.pages/", import.meta.url));
const compiler = join(root, "node_modules/typescript/bin/tsc");

/**
 * The programs of a page. A block that imports something begins one; blocks without imports
 * go on with it, each in a scope of its own, so that a name may be used again.
 */
export function programsOf(page: Page): Program[] {
  const programs: Block[][] = [];
  for (const block of page.blocks) {
    if (block.language !== "ts") {
      continue;
    }
    const own = block.file !== undefined || block.given !== undefined || importsSomething(block);
    if (own || programs.length === 0) {
      programs.push([block]);
    } else {
      programs.at(-1)?.push(block);
    }
  }
  return programs.map((blocks) => {
    const [first] = blocks as [Block];
    const name = (first.file ?? `line-${first.line}.ts`).replace(/\.ts$/, "");
    const path = join(page.path.replace(/\.md$/, ""), name);
    return {
      page,
      line: first.line,
      file: first.file,
      notRun: first.notRun,
      source: sourceOf(blocks),
      compiled: join(folder, "dist", `${path}.js`),
    };
  });
}

function importsSomething({ lines }: Block): boolean {
  return lines.some((line) => line.startsWith("import "));
}

function sourceOf(blocks: readonly Block[]): string {
  const source: string[] = [];
  const put = (line: number, lines: readonly string[]): void => {
    while (source.length < line - 1) {
      source.push("");
    }
    source.push(...lines);
  };
  for (const [index, { line, lines, given }] of blocks.entries()) {
    if (given !== undefined) {
      put(given.line + 1, given.lines.slice(1));
    }
    // The fences become the braces of a scope.
    put(line, index === 0 ? ["", ...lines] : ["{", ...lines, "}"]);
  }
  return `${source.join("\n")}\nexport {};\n`;
}

/** A complaint of the compiler, at its place in a page. */
export interface Complaint {
  readonly path: string;
  readonly line: number;
  readonly message: string;
}

/** Compiles programs with the packages as they are built. */
export function compile(programs: readonly Program[]): Complaint[] {
  rmSync(folder, { recursive: true, force: true });
  const pages = new Map<string, Program>();
  for (const program of programs) {
    const path = relative(join(folder, "dist"), program.compiled).replace(/\.js$/, ".ts");
    pages.set(path, program);
    write(join(folder, "src", path), program.source);
  }
  write(
    join(folder, "tsconfig.json"),
    JSON.stringify({
      extends: "../../../tsconfig.base.json",
      compilerOptions: {
        rootDir: "src",
        outDir: "dist",
        types: ["node"],
        isolatedDeclarations: false,
        declaration: false,
        declarationMap: false,
        sourceMap: false,
        noUnusedLocals: false,
        noUnusedParameters: false,
      },
      include: ["src"],
    }),
  );
  const { stdout, stderr, error } = spawnSync(
    process.execPath,
    [compiler, "-p", folder, "--pretty", "false"],
    { cwd: folder, encoding: "utf8" },
  );
  if (error !== undefined) {
    throw error;
  }
  const complaints: Complaint[] = [];
  for (const text of `${stdout}${stderr}`.split("\n").filter((text) => text !== "")) {
    const [, file = "", line = "0", message = ""] =
      /^(?:src\/)?(.*?)\((\d+),\d+\): (.*)$/.exec(text) ?? [];
    const program = pages.get(file);
    const last = complaints.at(-1);
    if (program !== undefined) {
      complaints.push({ path: program.page.path, line: Number(line), message });
    } else if (last !== undefined) {
      complaints[complaints.length - 1] = { ...last, message: `${last.message}\n${text}` };
    } else {
      throw new Error(`tsc: ${text}`);
    }
  }
  return complaints;
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
