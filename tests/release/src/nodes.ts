// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { root, run } from "./run.ts";

/** The tested versions of Node: the lowest supported one, and the latest of each release line. */
export const nodeVersions = ["22.12.0", "22.23.3", "24.21.0", "26.10.0"] as const;

/** An installed version of Node. */
export interface Node {
  readonly version: string;
  /** The folder of its `node`, for PATH. */
  readonly bin: string;
}

/**
 * Installs a version of Node from npm's package `node` into `.toolchain/nodes`, once.
 *
 * @throws Error if npm lacks the version, or it does not run on this machine.
 */
export async function bringNode(version: string): Promise<Node> {
  const folder = join(root, ".toolchain/nodes", version);
  const bin = join(folder, "node_modules/node/bin");
  if (!existsSync(join(bin, "node"))) {
    mkdirSync(folder, { recursive: true });
    const install = ["install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund"];
    await run("npm", [...install, "--prefix", folder, `node@${version}`], { cwd: folder });
  }
  const found = (await run(join(bin, "node"), ["--version"], { cwd: folder })).trim();
  if (found !== `v${version}`) {
    throw new Error(`expected node ${version}, npm brought ${found}`);
  }
  return { version, bin };
}

/** Returns true if a version of Node is within a range like `>=22.12`. */
export function declares(range: string, version: string): boolean {
  const [lowestMajor = 0, lowestMinor = 0] = range.replace(">=", "").split(".").map(Number);
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > lowestMajor || (major === lowestMajor && minor >= lowestMinor);
}
