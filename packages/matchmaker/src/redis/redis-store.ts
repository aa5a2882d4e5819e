// SPDX-License-Identifier: Apache-2.0
import { systemTime, type TimeSource } from "@dm-env-rpc/transport/internal";

import type { Kind } from "../model.ts";
import {
  type Changes,
  type CommitResult,
  type Entry,
  fenced,
  keyText,
  type Lease,
  type RecordKey,
  type Store,
} from "../store/store.ts";
import { openRedis, type Reply } from "./redis-link.ts";
import {
  acquireScript,
  changesScript,
  commitScript,
  releaseScript,
  renewScript,
} from "./scripts.ts";

/** Options of `redisStore`. */
export interface RedisStoreOptions {
  /** Such as `redis://127.0.0.1:6379/0`; `rediss://` for TLS. */
  readonly url: string;
  /**
   * What all keys begin with; matchmakers with the same one are one. Default `{matchmaker}:`; the
   * braces keep the keys together on a Redis cluster.
   */
  readonly prefix?: string | undefined;
  /** How long connecting may take at first. Default 5,000. */
  readonly connectMs?: number | undefined;
  /** How long a command may take. Default 3,000. */
  readonly commandMs?: number | undefined;
  /** How often to look for changes that nobody told of. Default 1,000. */
  readonly pollMs?: number | undefined;
  /** Told when a connection is lost; it is made again. Must not throw. */
  readonly onError?: ((error: Error) => void) | undefined;
  /** For what happens between two answers of Redis, whose own time is the store's. Default: the machine's. */
  readonly time?: TimeSource | undefined;
}

/** Deleted records that are remembered; readers that are further behind start over. */
const maxDeleted = 10_000;

/**
 * A store in Redis (7 or later), which several matchmakers share. Let Redis keep what it has
 * (`appendonly yes`): what it forgets in a restart, the matchmakers have lost.
 *
 * @throws StoreError `unavailable` when Redis does not answer.
 */
export async function redisStore(options: RedisStoreOptions): Promise<Store> {
  const { time = systemTime, prefix = "{matchmaker}:", pollMs = 1_000 } = options;
  const key = (name: string): string => `${prefix}${name}`;
  const [records, log, version, deleted, forgotten, fence] = [
    key("records"),
    key("log"),
    key("version"),
    key("deleted"),
    key("forgotten"),
    key("fence"),
  ];
  const leaseKey = (name: string): string => key(`lease:${name}`);
  const channel = key("changed");
  const listeners = new Set<() => void>();
  const tell = (): void => {
    for (const listener of [...listeners]) listener();
  };
  const link = await openRedis({
    url: options.url,
    channel,
    connectMs: options.connectMs ?? 5_000,
    commandMs: options.commandMs ?? 3_000,
    onNews: tell,
    onError: (error) => options.onError?.(error),
  });
  /** By how much the time of Redis is ahead of this machine's. */
  let aheadMs = 0;
  const learnTime = (seconds: Reply | undefined, microseconds: Reply | undefined): void => {
    aheadMs = Number(seconds) * 1_000 + Number(microseconds) / 1_000 - time.now();
  };
  let cancelPoll = (): void => {};
  const poll = (): void => {
    tell();
    cancelPoll = time.after(pollMs, poll);
  };
  const close = async (): Promise<void> => {
    cancelPoll();
    listeners.clear();
    await link.close();
  };
  try {
    learnTime(...(list(await link.command(["TIME"])) as [Reply, Reply]));
  } catch (error) {
    await close();
    throw error;
  }
  cancelPoll = time.after(pollMs, poll);

  return {
    now: () => time.now() + aheadMs,
    async commit(changes, lease): Promise<CommitResult> {
      const args = [lease === undefined ? "" : String(lease.token), channel, String(maxDeleted)];
      for (const { kind, id, version: expected, value } of changes) {
        args.push(keyText({ kind, id }), String(expected));
        args.push(value === undefined ? "" : JSON.stringify(value));
      }
      const keys = [records, log, version, deleted, forgotten, leaseKey(lease?.name ?? "")];
      const [outcome, ...rest] = list(await link.run(commitScript, keys, args));
      if (outcome === "fenced" && lease !== undefined) throw fenced(lease);
      if (outcome === "ok") return { ok: true, version: Number(rest[0]) };
      return { ok: false, conflicts: rest.map((text) => keyOf(String(text))) };
    },
    async read(keys) {
      if (keys.length === 0) return [];
      const values = list(await link.command(["HMGET", records, ...keys.map(keyText)]));
      return keys.map((each, index) => entryOf(each, values[index]));
    },
    async changes(since, limit): Promise<Changes> {
      const keys = [records, log, version, forgotten];
      const reply = list(await link.run(changesScript, keys, [String(since), String(limit)]));
      const [reset, cursor, more, seconds, microseconds, ...parts] = reply;
      learnTime(seconds, microseconds);
      const entries: Entry[] = [];
      for (let at = 0; at < parts.length; at += 3) {
        const entry = entryOf(keyOf(String(parts[at])), parts[at + 2]);
        entries.push({ ...entry, version: Number(parts[at + 1]) } as Entry);
      }
      return { entries, cursor: Number(cursor), more: more === "1", reset: reset === "1" };
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async acquire(name, ttlMs): Promise<Lease | undefined> {
      const keys = [leaseKey(name), fence];
      const token = await link.run(acquireScript, keys, [String(Math.ceil(ttlMs))]);
      return token === "" ? undefined : { name, token: Number(token) };
    },
    async renew(lease, ttlMs) {
      const args = [String(lease.token), String(Math.ceil(ttlMs))];
      return (await link.run(renewScript, [leaseKey(lease.name)], args)) === 1;
    },
    async release(lease) {
      await link.run(releaseScript, [leaseKey(lease.name)], [String(lease.token)]);
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

function list(reply: Reply): readonly Reply[] {
  if (Array.isArray(reply)) return reply;
  throw new Error(`expected a list from Redis, received ${JSON.stringify(reply)}`);
}

function keyOf(text: string): RecordKey {
  const slash = text.indexOf("/");
  return { kind: text.slice(0, slash) as Kind, id: text.slice(slash + 1) };
}

/** A record as it is kept: its version, a space, and JSON. */
function entryOf({ kind, id }: RecordKey, text: Reply | undefined): Entry {
  if (typeof text !== "string" || text === "") {
    return { kind, id, version: 0, value: undefined } as Entry;
  }
  const space = text.indexOf(" ");
  const value: unknown = JSON.parse(text.slice(space + 1));
  return { kind, id, version: Number(text.slice(0, space)), value } as Entry;
}
