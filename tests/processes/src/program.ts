// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";

/** Result of a program that has ended. */
export interface Outcome {
  /** Exit code, or the signal that ended it. */
  readonly status: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program in a process that can be killed, with its output. */
export class Program implements AsyncDisposable {
  readonly process: ChildProcess;
  /** Exit code, or the signal that ended it; rejects if it could not be started. */
  readonly ended: Promise<number | string>;
  stdout = "";
  stderr = "";
  readonly #watchers = new Set<() => void>();

  /** Starts a program, by default without standard input. Only output that `options.stdio` pipes is recorded. */
  constructor(program: string, args: readonly string[], options: SpawnOptions = {}) {
    this.process = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
    for (const name of ["stdout", "stderr"] as const) {
      this.process[name]?.setEncoding("utf8").on("data", (text: string) => {
        this[name] += text;
        for (const watch of this.#watchers) {
          watch();
        }
      });
    }
    this.ended = once(this.process, "close").then(([code, signal]) => code ?? signal);
    // Marks the promise as handled, because not every caller awaits it.
    this.ended.catch(() => {});
  }

  /** Starts a Node program that serves, and waits until it prints its address. Its standard error is printed. */
  static async serving(main: string, args: readonly string[]): Promise<ServingProgram> {
    const stdio: SpawnOptions["stdio"] = ["ignore", "pipe", "inherit"];
    const program = new Program(process.execPath, [main, ...args], { stdio });
    return Object.assign(program, { url: await program.says(/^listening on (\S+)$/m) });
  }

  /** Waits until its output matches, and returns the first group. */
  async says(pattern: RegExp): Promise<string> {
    let watch = (): void => {};
    const said = new Promise<string>((resolve) => {
      watch = () => {
        const found = pattern.exec(this.stdout) ?? pattern.exec(this.stderr);
        if (found !== null) {
          resolve(found[1] ?? "");
        }
      };
    });
    this.#watchers.add(watch);
    watch();
    const ended = this.ended.then((status) => {
      throw new Error(
        `ended with ${status} before it printed ${pattern}: ${this.stdout}${this.stderr}`,
      );
    });
    try {
      return await Promise.race([said, ended]);
    } finally {
      this.#watchers.delete(watch);
    }
  }

  /** Waits until it has ended. */
  async outcome(): Promise<Outcome> {
    return { status: await this.ended, stdout: this.stdout, stderr: this.stderr };
  }

  /** Sends SIGTERM and waits until it has ended. */
  async stop(): Promise<number | string> {
    this.process.kill("SIGTERM");
    return await this.ended;
  }

  /** Sends SIGKILL and waits until it has ended. */
  async kill(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // A program that could not be started has no process to wait for.
    if (this.process.pid !== undefined) {
      await this.kill();
    }
  }
}

/** A program that serves at an address. */
export interface ServingProgram extends Program {
  /** The address that it listens on. */
  readonly url: string;
}

/**
 * Runs a program to its end and returns its standard output.
 *
 * @throws Error with all its output if its exit code is not 0.
 */
export async function run(
  program: string,
  args: readonly string[],
  options: SpawnOptions = {},
): Promise<string> {
  const { status, stdout, stderr } = await new Program(program, args, options).outcome();
  if (status === 0) {
    return stdout;
  }
  throw new Error(`${[program, ...args].join(" ")} ended with ${status}:\n${stdout}${stderr}`);
}
