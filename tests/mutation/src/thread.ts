// SPDX-License-Identifier: Apache-2.0
// The thread of keptThreadPlugin: vitest's worker, which stays for the next run.
import { parentPort, workerData } from "node:worker_threads";
import { INSTRUMENTER_CONSTANTS, type MutantCoverage } from "@stryker-mutator/api/core";
import { init, runBaseTests, setupEnvironment } from "vitest/worker";
import { limitOf } from "./durations.ts";
import { shared } from "./kept-thread.ts";

if (parentPort === null) {
  throw new Error("thread.ts is not running in a thread; expected one of keptThreadPlugin");
}
const port = parentPort;
const cells: Int32Array = workerData;
// Tests may replace it.
const { setInterval, setTimeout } = globalThis;

const settleTries = 40;
const settleMs = 5;

setInterval(() => Atomics.add(cells, shared.turns, 1), 100).unref();

/** Timers of the current run. */
const timers = new Set<NodeJS.Timeout>();
const tracked = <T extends typeof setInterval | typeof setTimeout>(start: T): T => {
  const startTracked = (...parameters: Parameters<T>): NodeJS.Timeout => {
    const timer: NodeJS.Timeout = Reflect.apply(start, undefined, parameters);
    timers.add(timer);
    return timer;
  };
  return Object.defineProperties(startTracked, Object.getOwnPropertyDescriptors(start)) as T;
};
const trackedTimeout = tracked(setTimeout);
globalThis.setTimeout = trackedTimeout;
globalThis.setInterval = tracked(setInterval);

/** Counts what keeps the thread's event loop alive, by type. */
function countHandles(): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const type of process.getActiveResourcesInfo()) {
    counts.set(type, (counts.get(type) ?? 0) + 1);
  }
  return counts;
}

/** Clears the timers of a run, and waits until its sockets and servers are closed; false if some stay open. */
async function clean(before: ReadonlyMap<string, number>): Promise<boolean> {
  for (const timer of timers) {
    clearTimeout(timer);
  }
  timers.clear();
  for (let tries = 0; tries < settleTries; tries++) {
    if ([...countHandles()].every(([type, count]) => count <= (before.get(type) ?? 0))) {
      return globalThis.setTimeout === trackedTimeout;
    }
    await new Promise((resolve) => setTimeout(resolve, settleMs));
  }
  return false;
}

/** Forgets which tests have reached which mutants: each file reports its own. */
function clearCoverage(): void {
  const stryker: { readonly mutantCoverage?: MutantCoverage } | undefined = Reflect.get(
    globalThis,
    INSTRUMENTER_CONSTANTS.NAMESPACE,
  );
  const { perTest = {}, static: ofImports = {} } = stryker?.mutantCoverage ?? {};
  // The instrumented modules hold these objects.
  for (const record of [perTest, ofImports]) {
    for (const key of Object.keys(record)) {
      delete record[key];
    }
  }
}

type Listener = (message: unknown) => void;

let handlesBefore: ReadonlyMap<string, number> | undefined;
const listeners: Listener[] = [];

init({
  post: (message) => port.postMessage(message),
  // The first listener is vitest's own; then each run adds one for its calls, which replaces that of the run before.
  on(listener: Listener) {
    const [previous] = listeners.splice(1);
    if (previous !== undefined) {
      port.off("message", previous);
    }
    listeners.push(listener);
    port.on("message", listener);
  },
  off: (listener: Listener) => port.off("message", listener),
  setup: setupEnvironment,
  collectTests: (state, traces) => runBaseTests("collect", state, traces),
  async runTests(state, traces) {
    handlesBefore ??= countHandles();
    let isCancelled = false;
    state.onCancel(() => {
      isCancelled = true;
    });
    // File by file: vitest would import those that remain after the first failure.
    for (const file of state.ctx.files) {
      if (!isCancelled) {
        // Not with vi.setConfig: its reset brings back the configuration of the thread's first run.
        const limitMs = limitOf(file.filepath);
        Object.assign(state.config, { testTimeout: limitMs, hookTimeout: limitMs });
        Atomics.store(cells, shared.limitMs, limitMs);
        await runBaseTests("run", { ...state, ctx: { ...state.ctx, files: [file] } }, traces);
        Atomics.store(cells, shared.limitMs, 0);
        clearCoverage();
      }
    }
    if (!(await clean(handlesBefore))) {
      Atomics.store(cells, shared.dirty, 1);
    }
  },
});
