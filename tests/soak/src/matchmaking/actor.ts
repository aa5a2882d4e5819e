// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** A process of the soak: it prints events as lines of JSON, and can be killed and frozen. */
export class Actor<Event extends object> implements AsyncDisposable {
  /** Address that the process listens on. Resolves when the process prints it; rejects if the process ends first. */
  readonly url: Promise<string>;
  /** Resolves when the process has ended. */
  readonly ended: Promise<void>;
  readonly #process: ChildProcess;

  /** @param onEvent Called with each printed event. */
  constructor(program: string, args: readonly string[], onEvent: (event: Event) => void) {
    const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] });
    this.#process = child;
    // Writing to a process that has exited is not an error.
    child.stdin.on("error", () => {});
    this.ended = once(child, "close").then(() => {});
    this.url = new Promise((resolve, reject) => {
      const onLine = (line: string): void => {
        const [, url] = /^listening on (\S+)$/.exec(line) ?? [];
        if (line.startsWith("{")) {
          onEvent(JSON.parse(line) as Event);
        } else if (url !== undefined) {
          resolve(url);
        } else {
          process.stderr.write(`${line}\n`);
        }
      };
      // Logs are events, too.
      createInterface({ input: child.stdout }).on("line", onLine);
      createInterface({ input: child.stderr }).on("line", onLine);
      child.once("error", reject);
      child.once("close", (code, signal) =>
        reject(new Error(`${[program, ...args].join(" ")} ended with ${signal ?? code}`)),
      );
    });
    // Marks the promise as handled: agents listen on nothing.
    this.url.catch(() => {});
  }

  /** Asks the process to finish its work. */
  finish(): void {
    this.#process.stdin?.end("end\n");
  }

  /** Suspends the process, as if its machine paused. */
  freeze(): void {
    this.#process.kill("SIGSTOP");
  }

  thaw(): void {
    this.#process.kill("SIGCONT");
  }

  async kill(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.ended;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}
