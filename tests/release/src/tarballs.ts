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

/** What a package.json says that its users notice. */
export interface Manifest {
  readonly name: string;
  readonly private?: boolean;
  readonly engines: { readonly node: string };
  readonly exports: Readonly<Record<string, string>>;
  readonly bin?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

/** Packs all packages that are published into a folder. */
export async function packAll(folder: string): Promise<readonly Tarball[]> {
  const tarballs: Tarball[] = [];
  for (const entry of readdirSync(join(root, "packages"))) {
    const cwd = join(root, "packages", entry);
    const manifest: Manifest = JSON.parse(readFileSync(join(cwd, "package.json"), "utf8"));
    if (manifest.private === true) continue;
    const printed = await run("pnpm", ["pack", "--json", "--pack-destination", folder], { cwd });
    const { filename, size }: { filename: string; size: number } = JSON.parse(printed);
    tarballs.push({ name: manifest.name, path: filename, bytes: size, manifest });
  }
  return tarballs;
}
