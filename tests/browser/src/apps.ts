// SPDX-License-Identifier: Apache-2.0
import { fileURLToPath } from "node:url";
import { Program } from "@dm-env-rpc/tests-processes";

/** An app in a process of its own, which ends with SIGTERM together with its child processes. */
export interface RunningApp extends AsyncDisposable {
  /** The first line that it wrote. */
  readonly firstLine: string;
}

/** Starts an app, and waits for its first line. */
export async function startApp(app: string, args: readonly string[]): Promise<RunningApp> {
  const main = fileURLToPath(import.meta.resolve(`@dm-env-rpc/${app}/package.json`)).replace(
    "package.json",
    "dist/main.js",
  );
  const program = new Program(process.execPath, [main, ...args]);
  return {
    firstLine: await program.says(/^(.+)\n/),
    async [Symbol.asyncDispose]() {
      await program.stop();
    },
  };
}
