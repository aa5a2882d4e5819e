// SPDX-License-Identifier: Apache-2.0
import { execFile } from "node:child_process";
import { delimiter } from "node:path";
import { fileURLToPath } from "node:url";

/** The root of the repository. */
export const root: string = fileURLToPath(new URL("../../../", import.meta.url));

/** Working directory of a program, the start of its PATH, and what else differs from the defaults. */
export interface RunOptions {
  readonly cwd: string;
  readonly path?: string | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Default: five minutes. */
  readonly timeoutMs?: number | undefined;
}

/** A program that was killed, because it did not end in its time. */
export class Hung extends Error {}

/**
 * Runs a program to its end and returns its output.
 *
 * @throws Hung with the output if it does not end in its time.
 * @throws Error with the output if its exit code is not 0.
 */
export function run(
  program: string,
  args: readonly string[],
  options: RunOptions,
): Promise<string> {
  const { cwd, path, timeoutMs: timeout = 300_000 } = options;
  const env = { ...process.env, ...options.env };
  if (path !== undefined) {
    env["PATH"] = `${path}${delimiter}${env["PATH"]}`;
  }
  return new Promise((resolve, reject) => {
    const limits = { cwd, env, timeout, killSignal: "SIGKILL" } as const;
    execFile(program, args, limits, (error, stdout, stderr) => {
      if (error === null) {
        resolve(stdout);
        return;
      }
      const text = `${[program, ...args].join(" ")}\n${stdout}${stderr}`.trim();
      reject(error.killed ? new Hung(`${text}\nkilled after ${timeout} ms`) : new Error(text));
    });
  });
}
