// SPDX-License-Identifier: Apache-2.0
import { fileURLToPath } from "node:url";
import { Program } from "@dm-env-rpc/tests-processes";

/** Starts one of the apps. */
export function startApp(app: string, args: readonly string[]): Program {
  const main = fileURLToPath(new URL(`../../../apps/${app}/dist/main.js`, import.meta.url));
  return new Program(process.execPath, [main, ...args]);
}

/** Starts a gridworld server on a free port. */
export async function gridworldServer(...args: string[]): Promise<Program & { address: string }> {
  const program = startApp("gridworld-server", ["--port", "0", ...args]);
  return Object.assign(program, { address: await program.says(/^listening on http:\/\/(\S+)\n/) });
}
