// SPDX-License-Identifier: Apache-2.0
import { execFile } from "node:child_process";
import { delimiter } from "node:path";
import { fileURLToPath } from "node:url";

/** The root of the repository. */
export const root: string = fileURLToPath(new URL("../../../", import.meta.url));

/** Working directory of a program, and the start of its PATH. */
export interface RunOptions {
  readonly cwd: string;
  readonly path?: string | undefined;
}

const timeoutMs = 300_000;

/**
 * Runs a program to its end and returns its output.
 *
 * @throws Error with the output if its exit code is not 0 or it takes five minutes.
 */
export function run(
  program: string,
  args: readonly string[],
  options: RunOptions,
): Promise<string> {
  const { cwd, path } = options;
  const env = { ...process.env };
  if (path !== undefined) {
    env["PATH"] = `${path}${delimiter}${env["PATH"]}`;
  }
  return new Promise((resolve, reject) => {
    execFile(program, args, { cwd, env, timeout: timeoutMs }, (error, stdout, stderr) => {
      if (error === null) {
        resolve(stdout);
      } else {
        reject(new Error(`${[program, ...args].join(" ")}\n${stdout}${stderr}`.trim()));
      }
    });
  });
}
