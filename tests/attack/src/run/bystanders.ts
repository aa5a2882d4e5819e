// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Answer, Commands, Question } from "../children/agents.ts";

interface Pending {
  readonly resolve: (answer: object) => void;
  readonly reject: (error: Error) => void;
}

/** The process of the well-behaved agents. */
export class Bystanders implements AsyncDisposable {
  readonly #process: ChildProcess;
  readonly #pending = new Map<number, Pending>();
  #nextId = 0;

  constructor() {
    const program = fileURLToPath(new URL("../children/agents.js", import.meta.url));
    this.#process = fork(program);
    this.#process.on("message", ({ id, answer, error }: Answer) => {
      const question = this.#pending.get(id);
      this.#pending.delete(id);
      if (answer === undefined) {
        question?.reject(new Error(error));
      } else {
        question?.resolve(answer);
      }
    });
    this.#process.once("exit", (code, signal) => {
      for (const { reject } of this.#pending.values()) {
        reject(new Error(`the process of the agents ended with ${code ?? signal}`));
      }
    });
  }

  /** Sends a command and returns its answer. */
  async ask<K extends keyof Commands>(
    command: K,
    ask: Commands[K]["ask"],
  ): Promise<Commands[K]["answer"]> {
    const id = this.#nextId;
    this.#nextId += 1;
    const answer = await new Promise<object>((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.#process.send({ id, command, ask } satisfies Question<K>);
    });
    return answer as Commands[K]["answer"];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.exitCode === null) {
      this.#process.kill("SIGKILL");
      await once(this.#process, "exit");
    }
  }
}
