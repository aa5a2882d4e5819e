// SPDX-License-Identifier: Apache-2.0
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

/** The files of a package, each with the files of the same package that it imports, including type imports. */
export type ImportGraph = ReadonlyMap<string, readonly string[]>;

/** Reads the imports within a package, except in tests. Paths are relative to its folder. */
export function readImports(packageFolder: string): ImportGraph {
  const graph = new Map<string, readonly string[]>();
  for (const room of ["src", "testing"]) {
    const folder = join(packageFolder, room);
    if (!existsSync(folder)) {
      continue;
    }
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      const file = join(entry.parentPath, entry.name);
      if (!entry.isFile() || !/(?<!\.test|\.test-d)\.ts$/.test(entry.name)) {
        continue;
      }
      const imported = importsOf(readFileSync(file, "utf8")).map((specifier) =>
        relative(packageFolder, join(dirname(file), specifier)),
      );
      graph.set(relative(packageFolder, file), imported);
    }
  }
  return graph;
}

/** Returns the relative specifiers of a module's imports and re-exports, static or dynamic. */
export function importsOf(source: string): string[] {
  const found = source.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*"(\.{1,2}\/[^"]+)"/g);
  return [...found].map(([, specifier = ""]) => specifier);
}

/** Returns the import cycles: groups of files that import one another, directly or indirectly, sorted. */
export function findCircles(graph: ImportGraph): string[][] {
  const reachable = new Map([...graph.keys()].map((file) => [file, reachableFrom(graph, file)]));
  const circles = new Map<string, string[]>();
  for (const [file, others] of reachable) {
    if (!others.has(file)) {
      continue;
    }
    const circle = [...others].filter((other) => reachable.get(other)?.has(file)).sort();
    circles.set(circle.join(), circle);
  }
  return [...circles.values()];
}

function reachableFrom(graph: ImportGraph, file: string): ReadonlySet<string> {
  const found = new Set<string>();
  const open = [file];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const imported of graph.get(next) ?? []) {
      if (found.has(imported)) {
        continue;
      }
      found.add(imported);
      open.push(imported);
    }
  }
  return found;
}
