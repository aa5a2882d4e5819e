// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Commands } from "../worker/protocol.ts";

/** A child process that serves or plays. */
export interface Child {
  readonly pid: number;
  /**
   * Sends a command and returns its answer.
   *
   * @throws Error of the child, also when it has ended.
   */
  ask<K extends keyof Commands>(what: K, ask: Commands[K]["ask"]): Promise<Commands[K]["answer"]>;
  /** Ends the child and waits until it has exited. */
  close(): Promise<void>;
}

/** Options for starting children. */
export interface ChildOptions {
  /** The Python interpreter that has the official package. */
  readonly python?: string | undefined;
  /** The folder for CPU profiles of Node children. Default: no profiles. */
  readonly profiles?: string | undefined;
  /** The program that Node children run. Default: the worker of this checkout. */
  readonly worker?: string | undefined;
  /** Options of V8 for Node children. Default: none. */
  readonly v8?: readonly string[] | undefined;
}

const nodeWorker = fileURLToPath(new URL("../worker/main.js", import.meta.url));
const pythonWorker = fileURLToPath(new URL("../../python/worker.py", import.meta.url));

/** Starts a child in Node. */
export function startNode(options: ChildOptions, role: string): Child {
  const { profiles, worker = nodeWorker, v8 = [] } = options;
  const profile =
    profiles === undefined
      ? []
      : ["--cpu-prof", `--cpu-prof-dir=${profiles}`, `--cpu-prof-name=${role}.cpuprofile`];
  return start(process.execPath, ["--expose-gc", ...v8, ...profile, worker], role);
}

/** Starts a child in Python. */
export function startPython(options: ChildOptions, role: string): Child {
  if (options.python === undefined) {
    throw new Error(
      "expected a Python with dm-env-rpc, found none; run npm run interop, or pass --python",
    );
  }
  return start(options.python, [pythonWorker], role);
}

/** A child that takes longer to answer is considered hung. */
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
      for (const { reject } of waiting.splice(0)) {
        reject(gone);
      }
      resolve();
    };
    child.once("exit", (code, signal) => onEnd(`ended with ${signal ?? code}`));
    child.once("error", (error) => onEnd(error.message));
  });
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null) {
    throw new Error(`${role}: has no pipes`);
  }
  stdin.on("error", () => {}); // It has ended; pending and later asks reject.
  createInterface({ input: stdout }).on("line", (line) => {
    const answer = JSON.parse(line) as object;
    const first = waiting.shift();
    if ("error" in answer) {
      first?.reject(new Error(`${role}: ${String(answer.error)}`));
    } else {
      first?.resolve(answer);
    }
  });
  return {
    pid: child.pid ?? 0,
    ask: (what, ask) =>
      new Promise((resolve, reject) => {
        if (gone !== undefined) {
          throw gone;
        }
        const timer = setTimeout(
          () => reject(new Error(`${role}: no answer to "${what}" within ${answerMs} ms`)),
          answerMs,
        );
        waiting.push({
          resolve: (answer) => {
            clearTimeout(timer);
            // Workers answer as the protocol defines.
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

/** Returns the reasons why Python peers that need further packages cannot run, by name. */
export async function missingPeers(
  options: ChildOptions,
  peers: readonly string[],
): Promise<Record<string, string>> {
  if (options.python === undefined) {
    return Object.fromEntries(peers.map((peer) => [peer, "no Python with dm-env-rpc was found"]));
  }
  const child = startPython(options, "missing");
  try {
    return (await child.ask("missing", { peers })).missing;
  } finally {
    await child.close();
  }
}

/** Returns the versions of the runtimes and libraries of children. */
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
