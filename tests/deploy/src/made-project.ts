// SPDX-License-Identifier: Apache-2.0

import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { run } from "@dm-env-rpc/tests-processes";
import { pack } from "@dm-env-rpc/tests-release/tarballs";
import { parse } from "yaml";
import { root } from "./paths.ts";

/** A project created by the packed `create`, with the packed packages installed from tarballs. */
export interface MadeProject extends AsyncDisposable {
  readonly folder: string;
  /** The folder of the tarballs. */
  readonly tarballs: string;
}

const packages = ["protocol", "tensor-codec", "transport", "client", "server", "matchmaker"];

/** Creates a project with only npm, as a new user does, and installs it. */
export async function makeProject(): Promise<MadeProject> {
  const scratch = await mkdtemp(join(tmpdir(), "made-project-"));
  const tarballs = join(scratch, "tarballs");
  const folder = join(scratch, "my-world");
  await mkdir(tarballs);
  const create = (await pack("create", tarballs)).path;
  await run(
    "npm",
    ["exec", "--yes", `--package=${create}`, "--", "dm-env-rpc-create", "my-world"],
    {
      cwd: scratch,
    },
  );
  const files = new Map<string, string>();
  for (const each of packages) {
    const { name, path } = await pack(each, tarballs);
    files.set(name, path);
  }
  await installFrom(folder, files);
  return {
    folder,
    tarballs,
    [Symbol.asyncDispose]: () => rm(scratch, { recursive: true }),
  };
}

/**
 * Replaces the dependencies with tarballs, because the tested version is not published, and installs
 * the workspace's version of Vite: vite 8.4.0 depends on a package that the registry does not have,
 * which `npm install` accepts and `npm ci` refuses.
 */
async function installFrom(folder: string, files: ReadonlyMap<string, string>): Promise<void> {
  const path = join(folder, "package.json");
  const manifest = JSON.parse(await readFile(path, "utf8"));
  manifest.overrides = { vite: await catalogVersion("vite") };
  for (const [name, file] of files) {
    const kind = name in manifest.dependencies ? "dependencies" : "devDependencies";
    if (manifest[kind][name] === undefined) {
      throw new Error(`the project does not use ${name}`);
    }
    manifest[kind][name] = `file:${relative(folder, file)}`;
    manifest.overrides[name] = `$${name}`;
  }
  await writeFile(path, JSON.stringify(manifest, null, 2));
  await run("npm", ["install", "--no-audit", "--no-fund"], { cwd: folder });
}

/** Returns the version of a package in the workspace's catalog. */
async function catalogVersion(name: string): Promise<string> {
  const { catalog } = parse(await readFile(join(root, "pnpm-workspace.yaml"), "utf8"));
  const version: unknown = catalog[name];
  if (typeof version !== "string") {
    throw new Error(`pnpm-workspace.yaml has no ${name} in its catalog`);
  }
  return version;
}
