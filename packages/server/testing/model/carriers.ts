// SPDX-License-Identifier: Apache-2.0
import { type ClientStream, memoryStreamPair } from "@dm-env-rpc/transport";
import type { EnvironmentServer } from "../../src/environment-server.ts";

/** What carries the streams of a model's run. */
export interface Carrier extends AsyncDisposable {
  connect(): Promise<ClientStream>;
  /** Lets everything happen that can happen without time passing; `done` says when all that must has. */
  settle(done: () => boolean): Promise<void>;
}

/**
 * Streams in memory whose every task runs when it is told to.
 *
 * @param patient Whether promises are given their turns, as worlds need that answer with promises.
 */
export function memoryCarrier(server: EnvironmentServer, patient: boolean): Carrier {
  const tasks: (() => void)[] = [];
  const schedule = (task: () => void): void => void tasks.push(task);
  const run = (): void => {
    for (let task = tasks.shift(); task !== undefined; task = tasks.shift()) task();
  };
  return {
    async connect() {
      const [client, serverStream] = memoryStreamPair({ schedule });
      server.accept(serverStream);
      return client;
    },
    async settle() {
      run();
      if (!patient) return;
      for (let quiet = 0; quiet < 24; quiet += 1) {
        await Promise.resolve();
        if (tasks.length > 0) quiet = 0;
        run();
      }
    },
    async [Symbol.asyncDispose]() {},
  };
}
