// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { type Block, type Page, root } from "./pages.ts";

/** A complete piece of TypeScript on a page: a named file or a program. */
export interface Program {
  readonly page: Page;
  /** Line of its first block. */
  readonly line: number;
  readonly file: string | undefined;
  readonly notRun: string | undefined;
  /** The source, with the same line numbers as on the page. */
  readonly source: string;
  /** Path of the compiled file. */
  readonly compiled: string;
}

const pagesFolder = fileURLToPath(new URL("../.pages/", import.meta.url));
const compiler = join(root, "node_modules/typescript/bin/tsc");

/**
 * Returns the programs of a page. A block with an import starts a program; blocks without imports
 * continue it, each in its own scope, so that names can be reused.
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
      compiled: join(pagesFolder, "dist", `${path}.js`),
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

/** An error of the compiler, with its place on a page. */
export interface Complaint {
  readonly path: string;
  readonly line: number;
  readonly message: string;
}

/** Compiles programs, whose compiled files are below `folder`, against the built packages. */
export function compile(programs: readonly Program[], folder: string = pagesFolder): Complaint[] {
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
        lib: ["es2023", "esnext.disposable", "dom"],
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
