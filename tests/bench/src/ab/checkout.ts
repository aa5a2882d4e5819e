// SPDX-License-Identifier: Apache-2.0
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

/** A built checkout of this repository. */
export interface Checkout {
  /** The name to print: the short commit, or the folder. */
  readonly name: string;
  readonly folder: string;
}

const root = fileURLToPath(new URL("../../../..", import.meta.url));
const run = promisify(execFile);

/**
 * Returns the checkout to compare with: a folder that is built already, or a commit, which is
 * checked out and built in a temporary worktree that later runs reuse.
 *
 * @throws Error if BASE is neither, or the build fails.
 */
export async function checkoutOf(
  base: string,
  onProgress: (text: string) => void,
): Promise<Checkout> {
  if (existsSync(base) && statSync(base).isDirectory()) {
    const folder = resolve(base);
    if (!existsSync(workerOf(folder))) {
      throw new Error(
        `"${base}" is not built: expected ${workerOf(folder)}; run npm run build there`,
      );
    }
    return { name: base, folder };
  }
  const commit = await commitOf(base);
  const folder = join(tmpdir(), "dm-env-rpc-bench", commit.slice(0, 12));
  if (!existsSync(join(folder, "package.json"))) {
    await run("git", ["worktree", "prune"], { cwd: root });
    await run("git", ["worktree", "add", "--detach", folder, commit], { cwd: root });
  }
  onProgress(`building ${base} in ${folder}`);
  await build(folder);
  return { name: commit.slice(0, 7), folder };
}

/** The worker that plays and serves in a checkout. */
export const workerOf = (folder: string): string => join(folder, "tests/bench/dist/worker/main.js");

/** The bench of a checkout. */
export const benchOf = (folder: string): string => join(folder, "tests/bench/dist/main.js");

async function commitOf(base: string): Promise<string> {
  try {
    const { stdout } = await run("git", ["rev-parse", "--verify", `${base}^{commit}`], {
      cwd: root,
    });
    return stdout.trim();
  } catch (cause) {
    throw new Error(`expected a commit or a folder with a built checkout, received "${base}"`, {
      cause,
    });
  }
}

async function build(folder: string): Promise<void> {
  const args = ["scripts/toolchain.mjs", "turbo", "run", "build", "--filter=@dm-env-rpc/bench"];
  const child = spawn(process.execPath, [...args, "--output-logs=errors-only"], {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const [code] = await once(child, "close");
  if (code !== 0) {
    throw new Error(`the build in ${folder} failed; run npm run build there`);
  }
}
