// SPDX-License-Identifier: Apache-2.0
// Runs a custom match function in a worker thread, for worker-function.ts.
import { parentPort, workerData } from "node:worker_threads";
import type { MatchProposal } from "../match-function.ts";
import type { CustomMatchFunction } from "../profile-function.ts";
import type { FromWorker, ToWorker, WorkerFunctionSource } from "./messages.ts";

/** Proposals that are made in a row. More are made when they are requested. */
const batchSize = 32;

/** The current run. */
interface Run {
  readonly proposals: AsyncGenerator<MatchProposal>;
  readonly ended: AbortController;
}

const { module, name }: WorkerFunctionSource = workerData;
let run: Run | undefined;

async function load(): Promise<CustomMatchFunction> {
  const exported: unknown = Reflect.get(await import(module), name);
  if (typeof exported === "function") {
    return (context) => exported(context);
  }
  throw new Error(`${module}: expected a function "${name}", received ${typeof exported}`);
}

/**
 * The function. If it cannot be loaded, the error ends the thread, and with it the first run. The next
 * run starts another thread, which loads the module again.
 */
const match = await load();

async function* proposalsOf(
  context: Parameters<CustomMatchFunction>[0],
): AsyncGenerator<MatchProposal> {
  yield* await match(context);
}

async function makeProposals(current: Run): Promise<void> {
  try {
    for (let made = 0; made < batchSize; made++) {
      const next = await current.proposals.next();
      if (next.done === true) {
        end();
        return;
      }
      const teams = Object.entries(next.value.teams).map(
        ([team, tickets]) => [team, tickets.map(({ id }) => id)] as const,
      );
      send({ kind: "proposal", proposal: { ...next.value, teams: Object.fromEntries(teams) } });
    }
    send({ kind: "pause" });
  } catch (error) {
    // Sending also fails for a proposal that cannot be copied, such as one with a function.
    end(toError(error));
  }
}

function send(message: FromWorker): void {
  parentPort?.postMessage(message);
}

function end(error?: Error): void {
  run = undefined;
  send(error === undefined ? { kind: "end" } : { kind: "end", error });
}

function toError(thrown: unknown): Error {
  return thrown instanceof Error ? new Error(thrown.message) : new Error(String(thrown));
}

parentPort?.on("message", (message: ToWorker) => {
  if (message.kind === "run") {
    const ended = new AbortController();
    run = { ended, proposals: proposalsOf({ ...message.context, signal: ended.signal }) };
  }
  if (run === undefined) {
    return;
  }
  if (message.kind === "stop") {
    run.ended.abort();
    // Ignores an error of the generator's cleanup: its proposals are not needed.
    run.proposals.return(undefined).catch(() => {});
    run = undefined;
    return;
  }
  void makeProposals(run);
});
