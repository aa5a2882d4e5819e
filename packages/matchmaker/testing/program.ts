// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** A program of this folder as a process that can be killed. */
export class Program implements AsyncDisposable {
  /** Where it listens. */
  readonly url: string;
  readonly lines: string[];
  readonly #process: ChildProcess;
  readonly #ended: Promise<unknown>;

  private constructor(child: ChildProcess, ended: Promise<unknown>, url: string, lines: string[]) {
    this.#process = child;
    this.#ended = ended;
    this.url = url;
    this.lines = lines;
  }

  /** Starts one, and waits until it listens. */
  static async start(name: string, args: readonly string[]): Promise<Program> {
    const main = fileURLToPath(new URL(`./programs/${name}.ts`, import.meta.url));
    const child = spawn(process.execPath, [main, ...args], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ended = once(child, "close");
    const lines: string[] = [];
    const url = await new Promise<string>((resolve, reject) => {
      createInterface(child.stdout).on("line", (line) => {
        lines.push(line);
        const [, found] = /^listening on (\S+)$/.exec(line) ?? [];
        if (found !== undefined) resolve(found);
      });
      ended.then(() => reject(new Error(`${name} ended before it listened`)), reject);
    });
    return new Program(child, ended, url, lines);
  }

  /** Ends it as nothing else does. */
  async kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.#ended;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}
