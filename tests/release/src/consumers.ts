// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Tarball } from "./tarballs.ts";

/** Sub-paths that need an optional peer dependency. */
const subPathsOfPeers: ReadonlySet<string> = new Set([
  "@dm-env-rpc/conformance/vitest",
  "@dm-env-rpc/matchmaker/redis",
  "@dm-env-rpc/server/metrics",
]);

/** Returns the specifiers of all modules that a package exports; those that need a peer only with `peers`. */
export function modulesOf({ name, manifest }: Tarball, peers: boolean): readonly string[] {
  return Object.keys(manifest.exports)
    .filter((subPath) => !subPath.endsWith(".json"))
    .map((subPath) => name + subPath.slice(1))
    .filter((specifier) => peers || !subPathsOfPeers.has(specifier));
}

/**
 * Writes two modules into a project's src, import.mts and require.cts, which load the given modules
 * as ESM and as CommonJS and print the exported names.
 */
export function writeConsumers(folder: string, specifiers: readonly string[]): void {
  const bound = specifiers.map((specifier, i) => [`m${i}`, JSON.stringify(specifier)] as const);
  const print = "declare const console: { log(...texts: string[]): void };\n".concat(
    ...bound.map(([name, text]) => `console.log(${text}, Object.keys(${name}).join(" "));\n`),
  );
  write(
    "import.mts",
    bound.map(([name, text]) => `import * as ${name} from ${text};\n`),
  );
  write(
    "require.cts",
    bound.map(([name, text]) => `import ${name} = require(${text});\n`),
  );

  function write(file: string, imports: readonly string[]): void {
    mkdirSync(join(folder, "src"), { recursive: true });
    writeFileSync(join(folder, "src", file), `${imports.join("")}${print}`);
  }
}
