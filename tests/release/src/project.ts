// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root, run } from "./run.ts";
import type { Tarball } from "./tarballs.ts";

/** A project outside the workspace, with nothing in it but what it asks for. */
export interface Project {
  readonly folder: string;
  /** Bytes of all files that its dependencies brought, theirs included. */
  readonly installedBytes: number;
}

/**
 * Makes a project in an empty folder and installs its dependencies, from their tarballs where there are.
 * Nothing is hoisted: a package finds what its own package.json declares, and nothing else.
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

/** The workspace's version of @types/node, which a user with TypeScript has beside the packages. */
function typesOfNode(): string {
  return JSON.parse(readFileSync(join(root, "node_modules/@types/node/package.json"), "utf8"))
    .version;
}

/** Bytes of the files of packages below a folder; links are not followed. */
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
