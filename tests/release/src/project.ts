// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root, run } from "./run.ts";
import type { Tarball } from "./tarballs.ts";

/** A project outside the workspace with only its own dependencies. */
export interface Project {
  readonly folder: string;
  /** Bytes of all files of its dependencies, including indirect ones. */
  readonly installedBytes: number;
}

/**
 * Creates a project in an empty folder and installs its dependencies, from tarballs if given.
 * Nothing is hoisted: a package finds only the dependencies that its own package.json declares.
 */
export async function makeProject(
  folder: string,
  dependencies: Readonly<Record<string, string>>,
  tarballs: readonly Tarball[],
): Promise<Project> {
  mkdirSync(folder, { recursive: true });
  const fromTarballs = Object.fromEntries(tarballs.map(({ name, path }) => [name, `file:${path}`]));
  const manifest = {
    private: true,
    type: "module",
    dependencies,
    devDependencies: { "@types/node": typesOfNode() },
  };
  const settings = {
    packages: [],
    nodeLinker: "isolated",
    hoist: false,
    autoInstallPeers: false,
    strictPeerDependencies: true,
    blockExoticSubdeps: false,
    overrides: fromTarballs,
  };
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  writeFileSync(join(folder, "pnpm-workspace.yaml"), JSON.stringify(settings));
  const install = ["install", "--prefer-offline", "--ignore-scripts", "--no-frozen-lockfile"];
  await run("pnpm", [...install, "--prod"], { cwd: folder });
  const installedBytes = bytesOf(join(folder, "node_modules/.pnpm"));
  await run("pnpm", install, { cwd: folder });
  return { folder, installedBytes };
}

/** Returns the workspace's version of @types/node, which users of TypeScript install as well. */
function typesOfNode(): string {
  return JSON.parse(readFileSync(join(root, "node_modules/@types/node/package.json"), "utf8"))
    .version;
}

/** Counts the bytes of the packages in a folder, without following links. */
function bytesOf(folder: string): number {
  let bytes = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      bytes += bytesOf(path);
    } else if (entry.isFile() && entry.name !== "lock.yaml") {
      bytes += statSync(path).size;
    }
  }
  return bytes;
}
