// SPDX-License-Identifier: Apache-2.0
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join, posix } from "node:path";
import type { Ignore } from "@balena/dockerignore";

// The package is CommonJS, but its types declare an ES module.
const dockerignore: () => Ignore = createRequire(import.meta.url)("@balena/dockerignore");

/** Folders that are never read: thousands of files that no image needs. */
const skipped: ReadonlySet<string> = new Set([".git", "node_modules"]);

/** Returns the files in `folder` that a build receives according to .dockerignore, by relative path. */
export async function contextFiles(folder: string): Promise<readonly string[]> {
  const rules = dockerignore();
  const file = join(folder, ".dockerignore");
  if (existsSync(file)) {
    rules.add((await readFile(file, "utf8")).split("\n"));
  }
  for (const name of skipped) {
    if (!rules.ignores(name)) {
      throw new Error(`expected .dockerignore to exclude ${name}`);
    }
  }
  const found: string[] = [];
  const walk = async (path: string): Promise<void> => {
    for (const entry of await readdir(join(folder, path), { withFileTypes: true })) {
      const inner = posix.join(path, entry.name);
      if (entry.isDirectory()) {
        if (!skipped.has(entry.name)) {
          await walk(inner);
        }
      } else if (!rules.ignores(inner)) {
        found.push(inner);
      }
    }
  };
  await walk("");
  return found.sort();
}
