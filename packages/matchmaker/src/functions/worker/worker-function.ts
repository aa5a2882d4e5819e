// SPDX-License-Identifier: Apache-2.0
import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import { toError } from "@dm-env-rpc/transport/internal";
import type { MatchProposal, WaitingTicket } from "../match-function.ts";
import type { CustomMatchContext, CustomMatchFunction } from "../profile-function.ts";
import type { FromWorker, ToWorker, WorkerFunctionSource } from "./messages.ts";

/** A custom match function that runs in worker threads, which end when it is disposed. */
export interface WorkerFunction extends CustomMatchFunction, AsyncDisposable {}

/** A worker thread that runs one call of the function at a time. */
interface Thread {
  readonly worker: Worker;
  /** Messages that have not been read. */
  readonly inbox: FromWorker[];
  /** Called after each message. */
  wake: () => void;
}

/**
 * Runs a custom match function in a worker thread, so that it may compute without a pause: agents,
 * servers and other profiles do not wait for it. When its time is over (the setting `matchFunctionMs`),
 * the thread is terminated, even if the function never returns. The waiting tickets of each run are
 * copied to the thread. Concurrent runs have different threads; the thread of a finished run is used
 * again, by any profile.
 *
 * @param module URL of the module that exports the function, such as
 *   `new URL("./balanced.js", import.meta.url)`. An error while the module is loaded is reported like
 *   an error of the function, and the next run loads the module again.
 * @param name Name of the export.
 *
 * @example
 * await using balanced = workerFunction(new URL("./balanced.js", import.meta.url), "balanced");
 * await using matchmaker = await serveMatchmaker({ functions: { balanced } });
 */
export function workerFunction(module: URL, name: string): WorkerFunction {
  const source: WorkerFunctionSource = { module: module.href, name };
  const main = new URL(`./worker-main${extname(import.meta.url)}`, import.meta.url);
  const idle: Thread[] = [];
  const all = new Set<Thread>();

  const start = (): Thread => {
    const worker = new Worker(main, { workerData: source, name: `match function ${name}` });
    const thread: Thread = { worker, inbox: [], wake: () => {} };
    const receive = (message: FromWorker): void => {
      thread.inbox.push(message);
      thread.wake();
    };
    const ended = (error: Error): void => {
      all.delete(thread);
      const at = idle.indexOf(thread);
      if (at !== -1) {
        idle.splice(at, 1);
      }
      receive({ kind: "end", error });
    };
    worker.on("message", receive);
    worker.on("error", (error) => ended(toError(error)));
    worker.on("exit", (code) =>
      ended(new Error(`the worker thread of the match function ended with code ${code}`)),
    );
    all.add(thread);
    return thread;
  };

  /** Returns the next message; undefined if the signal aborts first. */
  const read = async (thread: Thread, signal: AbortSignal): Promise<FromWorker | undefined> => {
    if (thread.inbox.length === 0 && !signal.aborted) {
      await new Promise<void>((resolve) => {
        thread.wake = () => {
          signal.removeEventListener("abort", thread.wake);
          resolve();
        };
        signal.addEventListener("abort", thread.wake, { once: true });
      });
    }
    return thread.inbox.shift();
  };

  async function* run({ signal, ...context }: CustomMatchContext): AsyncGenerator<MatchProposal> {
    const tickets = new Map<string, WaitingTicket>();
    for (const pool of context.pools.values()) {
      for (const ticket of pool) {
        tickets.set(ticket.id, ticket);
      }
    }
    const thread = idle.pop() ?? start();
    const send = (message: ToWorker): void => thread.worker.postMessage(message);
    let isDone = false;
    try {
      thread.worker.ref();
      send({ kind: "run", context });
      for (;;) {
        const message = await read(thread, signal);
        if (message === undefined) {
          return;
        }
        if (message.kind === "proposal") {
          const { teams, ...proposal } = message.proposal;
          yield { ...proposal, teams: teamsOf(teams, tickets) };
        } else if (message.kind === "pause") {
          send({ kind: "more" });
        } else {
          isDone = true;
          if (message.error !== undefined) {
            throw message.error;
          }
          return;
        }
      }
    } finally {
      // A thread that still computes may never stop.
      const last = thread.inbox.at(-1)?.kind;
      isDone ||= last === "end";
      thread.inbox.length = 0;
      if (!all.has(thread) || (!isDone && last !== "pause")) {
        void thread.worker.terminate();
      } else {
        if (!isDone) {
          send({ kind: "stop" });
        }
        // An idle thread does not keep the process alive.
        thread.worker.unref();
        idle.push(thread);
      }
    }
  }

  const dispose = async (): Promise<void> => {
    await Promise.all([...all].map(({ worker }) => worker.terminate()));
  };
  return Object.assign((context: CustomMatchContext) => run(context), {
    [Symbol.asyncDispose]: dispose,
  });
}

/**
 * Returns the tickets of a proposal.
 *
 * @throws Error if an id is not that of a waiting ticket.
 */
function teamsOf(
  teams: Readonly<Record<string, readonly string[]>>,
  tickets: ReadonlyMap<string, WaitingTicket>,
): MatchProposal["teams"] {
  const found = Object.entries(teams).map(([team, ids]) => {
    const members = ids.map((id) => {
      const ticket = tickets.get(id);
      if (ticket === undefined) {
        throw new Error(`expected tickets of the profile's pools, received "${id}"`);
      }
      return ticket;
    });
    return [team, members] as const;
  });
  return Object.fromEntries(found);
}
