// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";

/** Returns the number of files that this process may open. */
export function allowedOpenFiles(): number {
  const { stdout } = spawnSync("sh", ["-c", "ulimit -n"], { encoding: "utf8" });
  const allowed = stdout?.trim() ?? "";
  return allowed === "" || allowed === "unlimited" ? Number.POSITIVE_INFINITY : Number(allowed);
}

/**
 * Checks that this process may open enough files.
 *
 * @throws Error with the command that raises the limit.
 */
export function expectOpenFiles(needed: number): void {
  const allowed = allowedOpenFiles();
  if (allowed < needed) {
    throw new Error(
      `this run needs ${needed} open files, for its sockets, and the limit is ${allowed}; raise it with "ulimit -n ${needed}", or use --quick`,
    );
  }
}
