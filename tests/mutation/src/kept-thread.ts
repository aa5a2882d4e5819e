// SPDX-License-Identifier: Apache-2.0
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import type { Plugin } from "vitest/config";
import type { PoolOptions, PoolRunnerInitializer, PoolWorker, WorkerRequest } from "vitest/node";
import { firstRunMs } from "./durations.ts";

/** The error of a run whose thread was terminated, since its event loop stood still for longer than a test may last. */
export const blockedMessage = "the thread was blocked";

const watchMs = 200;

/** Runs after which a thread is replaced, so that what each one leaves on the heap cannot add up. */
const maxRuns = 250;

/** A thread with the modules under test loaded. */
interface Kept {
  readonly thread: Worker;
  /** Written by the thread, at the places of {@link shared}. */
  readonly cells: Int32Array;
  runs: number;
}

/** Places in the memory shared with a thread. */
export const shared = {
  /** 1 once a run has left something behind in the thread. */
  dirty: 0,
  /** Increases while the thread's event loop turns. */
  turns: 1,
  /** Time for which the event loop may stand still in the current test file, in milliseconds; 0 between files. */
  limitMs: 2,
} as const;

/** Marks the messages of vitest's threads. */
const isResponse = "__vitest_worker_response__";

type Listener = (...args: unknown[]) => void;

/**
 * Makes vitest run test files in one thread, run after run.
 *
 * Vitest's own pools start a thread for each run, which then imports the code under test again: most of the time of a
 * mutation test. Instrumented code holds every mutant and reads which one is active, so it needs no reload. Test files
 * are imported again for each run. A thread is replaced when a run blocks it, or leaves handles or fake timers in it.
 */
export function keptThreadPlugin(): Plugin {
  const pool = keptThreadPool();
  return {
    name: pool.name,
    // Not the option `pool`: Stryker's runner sets it.
    configureVitest({ project }) {
      project.config.pool = pool.name;
      project.config.poolRunner = pool;
    },
  };
}

function keptThreadPool(): PoolRunnerInitializer {
  let idle: Kept | undefined;
  const start = ({ env, execArgv }: PoolOptions): Kept => {
    const cells = new Int32Array(new SharedArrayBuffer(3 * Int32Array.BYTES_PER_ELEMENT));
    const entry = join(import.meta.dirname, "thread.ts");
    const kept = {
      thread: new Worker(entry, { env, execArgv, workerData: cells }),
      cells,
      runs: 0,
    };
    kept.thread.once("exit", () => {
      idle = idle === kept ? undefined : idle;
    });
    return kept;
  };
  const take = (options: PoolOptions): Kept => {
    const kept = idle ?? start(options);
    idle = undefined;
    kept.thread.ref();
    return kept;
  };
  const giveBack = async (kept: Kept): Promise<void> => {
    kept.runs += 1;
    if (idle === undefined && kept.runs < maxRuns && kept.cells[shared.dirty] === 0) {
      idle = kept;
      kept.thread.unref();
    } else {
      await kept.thread.terminate();
    }
  };
  return {
    name: "kept-thread",
    createPoolWorker: (options) => new KeptThreadWorker(() => take(options), giveBack),
  };
}

/** One run in a kept thread. */
class KeptThreadWorker implements PoolWorker {
  readonly name = "kept-thread";
  readonly #take: () => Kept;
  readonly #giveBack: (kept: Kept) => Promise<void>;
  readonly #listeners: [event: string, listener: Listener][] = [];
  #kept: Kept | undefined;
  #isOver = false;
  #watch: NodeJS.Timeout | undefined;

  constructor(take: () => Kept, giveBack: (kept: Kept) => Promise<void>) {
    this.#take = take;
    this.#giveBack = giveBack;
  }

  async start(): Promise<void> {
    this.#kept = this.#take();
  }

  send(message: WorkerRequest): void {
    if (message.type === "stop") {
      // The thread would end: answer in its place.
      this.#isOver = true;
      this.#emit("message", { type: "stopped", [isResponse]: true });
      return;
    }
    if (message.type === "run") {
      this.#watchThread();
    }
    this.#kept?.thread.postMessage(message);
  }

  on(event: string, listener: Listener): void {
    this.#listeners.push([event, listener]);
    this.#kept?.thread.on(event, listener);
  }

  off(event: string, listener: Listener): void {
    this.#kept?.thread.off(event, listener);
  }

  deserialize(data: unknown): unknown {
    return data;
  }

  async stop(): Promise<void> {
    clearInterval(this.#watch);
    const kept = this.#kept;
    if (kept === undefined) {
      return;
    }
    this.#kept = undefined;
    for (const [event, listener] of this.#listeners) {
      kept.thread.off(event, listener);
    }
    await (this.#isOver ? this.#giveBack(kept) : kept.thread.terminate());
  }

  /** Ends the run if the thread stands still while this one does not. */
  #watchThread(): void {
    let turns: number | undefined;
    let stoodStillMs = 0;
    this.#watch = setInterval(() => {
      const { turns: turned, limitMs } = shared;
      const cells = this.#kept?.cells;
      stoodStillMs = turns === cells?.[turned] ? stoodStillMs + watchMs : 0;
      turns = cells?.[turned];
      if (cells !== undefined && stoodStillMs >= (cells[limitMs] || firstRunMs)) {
        clearInterval(this.#watch);
        cells[shared.dirty] = 1;
        const error = new Error(blockedMessage);
        this.#emit("message", { type: "testfileFinished", error, [isResponse]: true });
      }
    }, watchMs);
  }

  #emit(event: string, message: unknown): void {
    for (const [name, listener] of this.#listeners) {
      if (name === event) {
        listener(message);
      }
    }
  }
}
