// SPDX-License-Identifier: Apache-2.0
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { readPage, root } from "./pages.ts";
import type { Program } from "./programs.ts";

/** The folder in which examples are compiled. */
export const examplesFolder: string = fileURLToPath(new URL("../.examples/", import.meta.url));

/** Names that examples use without declaring them, because a reader who calls the function already has them. */
const given = `
declare const world: import("@dm-env-rpc/server").ServeOptions["worlds"][number];
declare const server: import("@dm-env-rpc/server").EnvironmentServer;
declare const connection: import("@dm-env-rpc/client").Connection;
declare const environment: import("@dm-env-rpc/client").Environment<
  import("@dm-env-rpc/client").DynamicAction, import("@dm-env-rpc/client").DynamicObservation>;
declare const token: string;
declare const bytes: Uint8Array;
declare const canvas: HTMLCanvasElement;
declare const registry: Parameters<typeof import("@dm-env-rpc/server/metrics").serveMetrics>[0];
declare const board: { isFree(field: number): boolean };
declare const game: { takePoints(): number; readonly isOver: boolean; restart(): void };
`.replaceAll("\n", " ");

/**
 * Returns the examples in the docstrings of all packages, each as a program that imports the names of packages that it
 * uses.
 */
export function examplesOf(): Program[] {
  const importOf = importsOfNames();
  return globSync("packages/*/src/**/*.ts", { cwd: root })
    .filter((path) => !/\.test|\/gen\//.test(path))
    .flatMap((path) => examplesIn(path, importOf));
}

const example = /\/\*\*(?:(?!\*\/)[\s\S])*? \* @example\n((?: \*.*\n)*?) \*(?:\/| @)/g;

/** An import that an example writes itself, because it is not of these packages. */
const ownImport = /^import .*;$/gm;

function examplesIn(path: string, importOf: ReadonlyMap<string, string>): Program[] {
  const text = readFileSync(join(root, path), "utf8");
  const own = path.split("/").slice(0, 2).join("/");
  return [...text.matchAll(example)].map((match) => {
    const [whole, body = ""] = match;
    const before = text.slice(0, match.index + whole.indexOf(body, whole.indexOf("@example")));
    const line = before.split("\n").length;
    const code = body.replace(/^ \* ?/gm, "").replace(/^```.*$/gm, "");
    const imports = [...new Set(code.match(/\b[A-Za-z]\w*\b/g))]
      .filter((name) => !isDeclared(code, name))
      .map((name) => importOf.get(`${own} ${name}`) ?? importOf.get(name) ?? "");
    return {
      page: readPage(path, ""),
      line,
      file: undefined,
      notRun: undefined,
      // In a block, where an example may declare what is given, but not import.
      source: `${[...imports, ...(code.match(ownImport) ?? [])].join(" ")} ${given}${"\n".repeat(line - 2)}{\n${code.replace(ownImport, "")}}\nexport {};\n`,
      compiled: join(examplesFolder, "dist", path.replace(/\.ts$/, `-${line}.js`)),
    };
  });
}

function isDeclared(code: string, name: string): boolean {
  return new RegExp(`\\b(?:const|let|function) (?:\\w+, )?(?:[{[][^=]*\\b)?${name}\\b`).test(code);
}

/** The file of a subpath of a package. */
type Target = string | { readonly default: string };

/** The import of each name that a package exports, also by its folder and name, because two packages may export one. */
function importsOfNames(): ReadonlyMap<string, string> {
  const imports = new Map<string, string>();
  for (const path of globSync("packages/*/package.json", { cwd: root })) {
    const manifest = JSON.parse(readFileSync(join(root, path), "utf8"));
    if (manifest.private === true) {
      continue;
    }
    for (const [subPath, target] of Object.entries<Target>(manifest.exports)) {
      const file = typeof target === "string" ? target : target.default;
      if (!file.endsWith(".js") || subPath.includes("internal")) {
        continue;
      }
      const module = join(manifest.name, subPath);
      for (const item of exportsOf(join(root, dirname(path), file))) {
        const name = item.replace("type ", "");
        for (const key of [name, `${dirname(path)} ${name}`]) {
          if (!imports.has(key)) {
            imports.set(key, `import { ${item} } from "${module}";`);
          }
        }
      }
    }
  }
  return imports;
}

/** The names that a built module exports, those of types after `type `. */
function exportsOf(file: string): readonly string[] {
  const types = readFileSync(file.replace(/\.js$/, ".d.ts"), "utf8");
  const listed = [...types.matchAll(/export (type )?\{([^}]*)\}/g)].flatMap(
    ([, areTypes = "", list = ""]) => list.split(",").map((item) => `${areTypes}${item.trim()}`),
  );
  const others = [...types.matchAll(/export \* from "(\.[^"]*)\.(?:js|ts)"/g)].flatMap(
    ([, other = ""]) => exportsOf(join(dirname(file), `${other}.js`)),
  );
  const declared = [...types.matchAll(/export declare (?:function|const) (\w+)/g)].map(
    ([, name = ""]) => name,
  );
  return [...listed, ...others, ...declared].filter((name) => /^(?:type )?\w+$/.test(name));
}
