// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const apps = new URL("../../../apps/", import.meta.url);

/** One of the apps as a process, and everything that it has said. */
export class Program implements AsyncDisposable {
  readonly process: ChildProcess;
  /** Exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  stdout = "";
  stderr = "";
  readonly #watchers = new Set<() => void>();

  constructor(app: string, args: readonly string[]) {
    const main = fileURLToPath(new URL(`${app}/dist/main.js`, apps));
    this.process = spawn(process.execPath, [main, ...args], { stdio: ["ignore", "pipe", "pipe"] });
    this.process.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.stdout += text;
      for (const watch of this.#watchers) watch();
    });
    this.process.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
      for (const watch of this.#watchers) watch();
    });
    this.ended = once(this.process, "close").then(([code, signal]) => code ?? signal);
  }

  /** Waits until the program has said something. */
  async says(pattern: RegExp): Promise<RegExpExecArray> {
    const { promise, resolve } = deferred<RegExpExecArray>();
    const watch = (): void => {
      const found = pattern.exec(this.stdout) ?? pattern.exec(this.stderr);
      if (found !== null) resolve(found);
    };
    this.#watchers.add(watch);
    watch();
    const ended = this.ended.then((code) => {
      throw new Error(`ended with ${code} before it said ${pattern}: ${this.stdout}${this.stderr}`);
    });
    try {
      return await Promise.race([promise, ended]);
    } finally {
      this.#watchers.delete(watch);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.kill("SIGKILL");
    }
    await this.ended;
  }
}

function deferred<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

/** A gridworld server on a free port, and its address. */
export async function gridworldServer(...args: string[]): Promise<Program & { address: string }> {
  const program = new Program("gridworld-server", ["--port", "0", ...args]);
  const [, address = ""] = await program.says(/^listening on http:\/\/(\S+)\n/);
  return Object.assign(program, { address });
}
