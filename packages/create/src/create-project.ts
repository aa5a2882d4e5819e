// SPDX-License-Identifier: Apache-2.0
import { cp, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import validatePackageName from "validate-npm-package-name";

const template = fileURLToPath(new URL("../template", import.meta.url));

/** Entries of a folder that still counts as empty. */
const ignored: ReadonlySet<string> = new Set([".git", ".DS_Store"]);

/**
 * Creates a project in an empty or new folder.
 *
 * @param version Version of the dm-env-rpc packages that the project depends on.
 * @returns The project's name, which is the folder's.
 * @throws Error if the folder's name is not a valid npm package name, or `folder` is a file or not empty.
 *   Nothing is written then.
 */
export async function createProject(folder: string, version: string): Promise<string> {
  const target = resolve(folder);
  const name = basename(target);
  checkName(name);
  await checkEmpty(target, folder);
  await cp(template, target, { recursive: true });
  // npm does not pack a .gitignore, and would apply it to the files that it packs.
  await rename(join(target, "gitignore"), join(target, ".gitignore"));
  await edit(join(target, "package.json"), (text) => manifestOf(text, name, version));
  await edit(join(target, "README.md"), (text) => text.replaceAll("my-world", name));
  return name;
}

function checkName(name: string): void {
  const { validForNewPackages, errors = [], warnings = [] } = validatePackageName(name);
  if (validForNewPackages) {
    return;
  }
  throw new Error(
    `expected a folder whose name is a valid npm package name, such as my-world; ` +
      `received "${name}": ${[...errors, ...warnings].join("; ")}`,
  );
}

async function checkEmpty(target: string, folder: string): Promise<void> {
  const there = await readdir(target).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") {
      return [];
    }
    if (error.code === "ENOTDIR") {
      throw new Error(`expected a folder, but "${folder}" is a file; give another name`);
    }
    throw error;
  });
  const first = there.find((entry) => !ignored.has(entry));
  if (first === undefined) {
    return;
  }
  throw new Error(
    `expected an empty folder, but "${folder}" has ${first} in it; empty it or give another name`,
  );
}

async function edit(file: string, change: (text: string) => string): Promise<void> {
  await writeFile(file, change(await readFile(file, "utf8")));
}

function manifestOf(text: string, name: string, version: string): string {
  const manifest = JSON.parse(text);
  manifest.name = name;
  for (const dependencies of [manifest.dependencies, manifest.devDependencies]) {
    for (const dependency of Object.keys(dependencies)) {
      if (dependency.startsWith("@dm-env-rpc/")) {
        dependencies[dependency] = `^${version}`;
      }
    }
  }
  return `${JSON.stringify(manifest, null, 2)}\n`;
}
