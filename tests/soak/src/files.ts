// SPDX-License-Identifier: Apache-2.0
import { spawnSync } from "node:child_process";

/**
 * Makes sure that a process may open so many files.
 *
 * @throws Error that says how to allow more.
 */
export function expectOpenFiles(needed: number): void {
  const { stdout } = spawnSync("sh", ["-c", "ulimit -n"], { encoding: "utf8" });
  const allowed = stdout?.trim() ?? "";
  if (allowed === "" || allowed === "unlimited" || Number(allowed) >= needed) {
    return;
  }
  throw new Error(
    `this run needs ${needed} open files, for its sockets, and the limit is ${allowed}; raise it with "ulimit -n ${needed}", or give --quick`,
  );
}
