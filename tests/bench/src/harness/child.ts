// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Commands } from "../worker/protocol.ts";

/** A process that serves or plays. */
export interface Child {
  readonly pid: number;
  /**
   * Tells it to do something.
   *
   * @throws Error with what went wrong there, also when it ended.
   */
  ask<K extends keyof Commands>(what: K, ask: Commands[K]["ask"]): Promise<Commands[K]["answer"]>;
  /** Ends it, and waits until it is gone. */
  close(): Promise<void>;
}

/** How children are started. */
export interface ChildOptions {
  /** The interpreter of the venv with the official package. */
  readonly python?: string | undefined;
  /** Where the CPU profiles of Node children go; none are taken without it. */
  readonly profiles?: string | undefined;
  /** The program that Node children run. Default: the worker of this checkout. */
  readonly worker?: string | undefined;
}

const nodeWorker = fileURLToPath(new URL("../worker/main.js", import.meta.url));
const pythonWorker = fileURLToPath(new URL("../../python/worker.py", import.meta.url));

/** Starts a child in Node. */
export function startNode(options: ChildOptions, role: string): Child {
  const { profiles, worker = nodeWorker } = options;
  const profile =
    profiles === undefined
      ? []
      : ["--cpu-prof", `--cpu-prof-dir=${profiles}`, `--cpu-prof-name=${role}.cpuprofile`];
  return start(process.execPath, ["--expose-gc", ...profile, worker], role);
}

/** Starts a child in Python. */
export function startPython(options: ChildOptions, role: string): Child {
  if (options.python === undefined) throw new Error("there is no Python with dm-env-rpc");
  return start(options.python, [pythonWorker], role);
}

/** A child that does not answer for so long hangs. */
const answerMs = 120_000;

interface Waiting {
  readonly resolve: (answer: object) => void;
  readonly reject: (error: Error) => void;
}

function start(program: string, args: readonly string[], role: string): Child {
  const child: ChildProcess = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  const waiting: Waiting[] = [];
  let gone: Error | undefined;
  const ended = new Promise<void>((resolve) => {
    const onEnd = (why: string): void => {
      gone ??= new Error(`${role}: ${why}`);
      for (const { reject } of waiting.splice(0)) reject(gone);
      resolve();
    };
    child.once("exit", (code, signal) => onEnd(`ended with ${signal ?? code}`));
    child.once("error", (error) => onEnd(error.message));
  });
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null) throw new Error(`${role}: has no pipes`);
  stdin.on("error", () => {}); // It ended; whoever asks is told.
  createInterface({ input: stdout }).on("line", (line) => {
    const answer = JSON.parse(line) as object;
    const first = waiting.shift();
    if ("error" in answer) first?.reject(new Error(`${role}: ${String(answer.error)}`));
    else first?.resolve(answer);
  });
  return {
    pid: child.pid ?? 0,
    ask: (what, ask) =>
      new Promise((resolve, reject) => {
        if (gone !== undefined) throw gone;
        const timer = setTimeout(
          () => reject(new Error(`${role}: no answer to "${what}" within ${answerMs} ms`)),
          answerMs,
        );
        waiting.push({
          resolve: (answer) => {
            clearTimeout(timer);
            // What a worker answers is what the protocol says.
            resolve(answer as Commands[typeof what]["answer"]);
          },
          reject: (error) => {
            clearTimeout(timer);
            reject(error);
          },
        });
        stdin.write(`${JSON.stringify({ do: what, ...ask })}\n`);
      }),
    async close() {
      stdin.end();
      const timer = setTimeout(() => child.kill("SIGKILL"), 10_000);
      await ended;
      clearTimeout(timer);
    },
  };
}

/** The versions of what children run on. */
export async function versionsOf(options: ChildOptions): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  const starts = options.python === undefined ? [startNode] : [startNode, startPython];
  for (const start of starts) {
    const child = start(options, "versions");
    try {
      Object.assign(found, (await child.ask("versions", {})).versions);
    } finally {
      await child.close();
    }
  }
  return found;
}
