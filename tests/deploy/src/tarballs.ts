// SPDX-License-Identifier: Apache-2.0

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { run } from "@dm-env-rpc/tests-processes";
import { root } from "./paths.ts";

/** Packs a package as it would be published, and returns the tarball's path. */
export async function pack(name: string, destination: string): Promise<string> {
  const folder = join(root, "packages", name);
  await run("pnpm", ["pack", "--pack-destination", destination], { cwd: folder });
  const files = await readdir(destination);
  const file = files.find((entry) => new RegExp(`^dm-env-rpc-${name}-\\d.*\\.tgz$`).test(entry));
  if (file === undefined) throw new Error(`pnpm pack left no tarball of ${name} in ${destination}`);
  return join(destination, file);
}
