// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** A Node program that serves, as a process that can be killed. */
export class Program implements AsyncDisposable {
  /** Where it listens. */
  readonly url: string;
  /** What it has written to its standard output. */
  readonly lines: readonly string[];
  /** Exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  readonly #process: ChildProcess;

  private constructor(
    child: ChildProcess,
    ended: Promise<number | string>,
    url: string,
    lines: readonly string[],
  ) {
    this.#process = child;
    this.ended = ended;
    this.url = url;
    this.lines = lines;
  }

  /** Starts one, and waits until it says where it listens. */
  static async start(main: string, args: readonly string[]): Promise<Program> {
    const child = spawn(process.execPath, [main, ...args], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ended = once(child, "close").then(([code, signal]) => code ?? signal);
    const lines: string[] = [];
    const url = await new Promise<string>((resolve, reject) => {
      createInterface(child.stdout).on("line", (line) => {
        lines.push(line);
        const [, found] = /^listening on (\S+)$/.exec(line) ?? [];
        if (found !== undefined) resolve(found);
      });
      ended.then(() => reject(new Error(`${main} ended before it listened`)), reject);
    });
    return new Program(child, ended, url, lines);
  }

  /** Asks it to end, and waits until it has. */
  async stop(): Promise<number | string> {
    this.#process.kill("SIGTERM");
    return await this.ended;
  }

  /** Ends it as nothing else does. */
  async kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.ended;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}
