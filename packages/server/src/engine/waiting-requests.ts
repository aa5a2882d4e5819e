// SPDX-License-Identifier: Apache-2.0
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Done } from "./hosted-world.ts";
import { clientError } from "./responses.ts";
import { isRefusal, type WorldCalls } from "./world-calls.ts";

/** The requests that a world has not answered yet. */
export class WaitingRequests {
  readonly #calls: WorldCalls;
  readonly #waiting = new Set<Done<never>>();
  readonly #gone: () => DmEnvRpcError | undefined;

  /** @param gone Says why the world is there no more, once it is not. */
  constructor(calls: WorldCalls, gone: () => DmEnvRpcError | undefined) {
    this.#calls = calls;
    this.#gone = gone;
  }

  /** Runs what a request asks for, when nothing else goes on; `done` is called once, whatever happens. */
  run<T>(done: Done<T>, operation: (finish: Done<T>) => void): void {
    const finish: Done<T> = (result) => {
      if (this.#waiting.delete(finish)) done(result);
    };
    this.#waiting.add(finish);
    this.#calls.operate(() => {
      const gone = this.#gone();
      if (gone !== undefined) {
        finish(gone);
        return;
      }
      try {
        operation(finish);
      } catch (error) {
        if (isRefusal(error)) finish(clientError(error));
        else throw error;
      }
    });
  }

  /** Somebody else answers a request from now on. */
  handOver(finish: Done<never>): void {
    this.#waiting.delete(finish);
  }

  /** Answers what waits, but for some, with the reason why the world is gone. */
  end(reason: DmEnvRpcError, except: readonly Done<never>[]): void {
    const spared = new Set(except);
    for (const finish of [...this.#waiting]) if (!spared.has(finish)) finish(reason);
  }
}
