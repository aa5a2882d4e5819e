// SPDX-License-Identifier: Apache-2.0
import { existsSync, globSync } from "node:fs";
import { join } from "node:path";

/** The rooms whose scores are printed when no target is given. */
export const defaultTargets: readonly string[] = [
  "server/engine",
  "server/clocks",
  "server/session",
  "client/realtime",
  "client/vector",
  "matchmaker/director",
  "matchmaker/services",
  "matchmaker/tokens",
  "matchmaker/registration",
];

/** The files of one package to mutate. */
export interface PackageFiles {
  /** Folder name in `packages/`. */
  readonly name: string;
  /** Paths from the repository's root, each with its range of lines if one was given. */
  readonly files: readonly string[];
}

const excluded = ["**/*.test.ts", "**/*.test-d.ts", "**/testing/**", "**/gen/**"];

/**
 * Resolves targets to the files of each package.
 *
 * A target is a package (`server`), a room of one (`server/clocks`) or a file
 * (`packages/server/src/clocks/turns.ts`), which may end with a range of lines (`….ts:20-40`).
 *
 * @throws Error if a target has no files.
 */
export function resolveTargets(root: string, targets: readonly string[]): PackageFiles[] {
  const packages = new Map<string, Set<string>>();
  for (const target of targets) {
    for (const file of filesOf(root, target)) {
      const name = file.split("/")[1] ?? "";
      packages.set(name, (packages.get(name) ?? new Set()).add(file));
    }
  }
  return [...packages].map(([name, files]) => ({ name, files: [...files].sort() }));
}

/** Returns the room of a file, as targets name it: `server/clocks`, or `server` for a file in no room. */
export function roomOf(file: string): string {
  const [, name = "", , ...path] = file.split("/");
  return path.length > 1 ? `${name}/${path[0]}` : name;
}

function filesOf(root: string, target: string): string[] {
  if (/^packages\/[^/]+\/src\/.*\.ts(:\d+-\d+)?$/.test(target)) {
    if (existsSync(join(root, target.replace(/:.*$/, "")))) {
      return [target];
    }
  } else {
    const [name, ...room] = target.split("/");
    const pattern = ["packages", name, "src", ...room, "**/*.ts"].join("/");
    const files = globSync(pattern, { cwd: root, exclude: excluded });
    if (files.length > 0) {
      return files;
    }
  }
  throw new Error(
    `the target ${target} has no files: expected a package (server), a room of one ` +
      "(server/clocks) or a file (packages/server/src/clocks/turns.ts, :20-40 for some lines)",
  );
}
