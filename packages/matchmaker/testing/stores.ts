// SPDX-License-Identifier: Apache-2.0

import { randomUUID } from "node:crypto";
import { hasRedis, RedisServer } from "@dm-env-rpc/tests-processes";
import { type ManualTime, manualTime } from "@dm-env-rpc/transport/internal";
import { createClient } from "redis";
import { redisStore } from "../src/redis/redis-store.ts";
import { memoryStore } from "../src/store/memory-store.ts";
import type { Store } from "../src/store/store.ts";
import { startMs } from "./start-ms.ts";
import { sharedStore } from "./wrapped-stores.ts";

/** Data that several stores may share, with the clock of a test. */
export interface StoreData extends AsyncDisposable {
  /** Opens a store with these data, for another process. */
  open(): Promise<Store>;
  /** Lets a lease run out. */
  pass(ms: number): Promise<void>;
  /** Deletes all data, as FLUSHALL does. */
  flush(): Promise<void>;
  readonly time: ManualTime;
}

/** A kind of store that the suites are run with. */
export interface StoreKind {
  readonly name: string;
  readonly isHere: boolean;
  createData(): Promise<StoreData>;
}

const memory: StoreKind = {
  name: "memory",
  isHere: true,
  async createData() {
    const time = manualTime(startMs);
    const store = memoryStore({ time });
    const open = async (): Promise<Store> => sharedStore(store);
    const pass = async (ms: number): Promise<void> => time.advance(ms);
    const flush = async (): Promise<void> => {
      throw new Error("a store in memory cannot be flushed: its data ends with its process");
    };
    return { open, pass, flush, time, [Symbol.asyncDispose]: () => store.close() };
  },
};

let shared: Promise<RedisServer> | undefined;

/** So long that Redis answers in time even if the machine stalls. */
const patient = { connectMs: 60_000, commandMs: 60_000 };

/**
 * Shortens leases, because Redis measures them by its own clock. ARGV: a pattern of their keys, and the milliseconds to
 * subtract.
 */
const shortenLeases = `
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  redis.call('PEXPIRE', key, redis.call('PTTL', key) - tonumber(ARGV[2]))
end
`;

const deleteAll = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end";

const redis: StoreKind = {
  name: "Redis",
  isHere: hasRedis && process.env["STORES"] !== "memory",
  async createData() {
    shared ??= RedisServer.start();
    const { url } = await shared;
    const time = manualTime(Date.now());
    const prefix = `{${randomUUID()}}:`;
    const open = async (): Promise<Store> => ({
      ...(await redisStore({ url, prefix, time, ...patient })),
      // Uses the clock of the test; another test covers Redis's own clock.
      now: () => time.now(),
    });
    const evaluate = async (script: string, args: string[]): Promise<void> => {
      const client = await createClient({ url, socket: { connectTimeout: 60_000 } }).connect();
      await client.eval(script, { arguments: args });
      client.destroy();
    };
    const pass = async (ms: number): Promise<void> => {
      time.advance(ms);
      await evaluate(shortenLeases, [`${prefix}lease:*`, String(ms)]);
    };
    const flush = (): Promise<void> => evaluate(deleteAll, [`${prefix}*`]);
    return { open, pass, flush, time, [Symbol.asyncDispose]: async () => {} };
  },
};

/** The kinds of store: in memory and in Redis. */
export const storeKinds: readonly StoreKind[] = [memory, redis];

/** Stops the processes that all stores share. */
export async function stopStores(): Promise<void> {
  const server = await shared;
  shared = undefined;
  await server?.[Symbol.asyncDispose]();
}
