// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";

/** What came of a program that has ended. */
export interface Outcome {
  readonly status: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program that runs, and everything that it has said. */
export class Program implements AsyncDisposable {
  readonly process: ChildProcess;
  readonly ended: Promise<Outcome>;
  #output = "";
  #watch = (): void => {};

  constructor(program: string, args: readonly string[], options: SpawnOptions = {}) {
    this.process = spawn(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) {
      this.process[name]?.setEncoding("utf8").on("data", (text: string) => {
        said[name] += text;
        this.#output += text;
        this.#watch();
      });
    }
    this.ended = once(this.process, "close").then(([code, signal]) => ({
      status: code ?? signal,
      ...said,
    }));
    // Whoever awaits it learns why; a program that nobody awaits is not an uncaught error.
    this.ended.catch(() => {});
  }

  /** Waits until it has said something, and returns the first group. */
  async says(pattern: RegExp): Promise<string> {
    const said = new Promise<string>((resolve) => {
      this.#watch = () => {
        const found = pattern.exec(this.#output);
        if (found !== null) resolve(found[1] ?? "");
      };
      this.#watch();
    });
    const ended = this.ended.then(({ status }) => {
      throw new Error(`ended with ${status} before it said ${pattern}: ${this.#output}`);
    });
    return await Promise.race([said, ended]);
  }

  /** Ends it as Docker and Kubernetes do, and waits. */
  async stop(): Promise<Outcome> {
    this.process.kill("SIGTERM");
    return await this.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.kill("SIGKILL");
    await this.ended.catch(() => {});
  }
}

/** Runs a program to its end, which must be good, and returns what it wrote to stdout. */
export async function run(
  program: string,
  args: readonly string[],
  options: SpawnOptions = {},
): Promise<string> {
  const { status, stdout, stderr } = await new Program(program, args, options).ended;
  if (status === 0) return stdout;
  throw new Error(`${[program, ...args].join(" ")} ended with ${status}:\n${stdout}${stderr}`);
}
