// SPDX-License-Identifier: Apache-2.0
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root, run } from "./run.ts";

/** A package as it would be published. */
export interface Tarball {
  readonly name: string;
  /** The path of its `.tgz`. */
  readonly path: string;
  readonly bytes: number;
  readonly manifest: Manifest;
}

/** The parts of a package.json that matter to users. */
export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly private?: boolean;
  readonly engines: { readonly node: string };
  readonly exports: Readonly<Record<string, string>>;
  readonly bin?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/** Packs the package of a folder of `packages/` as it would be published. */
export async function pack(name: string, folder: string): Promise<Tarball> {
  const cwd = join(root, "packages", name);
  const printed = await run("pnpm", ["pack", "--json", "--pack-destination", folder], { cwd });
  const { filename, size }: { filename: string; size: number } = JSON.parse(printed);
  const manifest = manifestOf(name);
  return { name: manifest.name, path: filename, bytes: size, manifest };
}

/** Packs all published packages into a folder. */
export async function packAll(folder: string): Promise<readonly Tarball[]> {
  const tarballs: Tarball[] = [];
  for (const name of readdirSync(join(root, "packages"))) {
    if (manifestOf(name).private !== true) {
      tarballs.push(await pack(name, folder));
    }
  }
  return tarballs;
}

function manifestOf(name: string): Manifest {
  return JSON.parse(readFileSync(join(root, "packages", name, "package.json"), "utf8"));
}
