// SPDX-License-Identifier: Apache-2.0

import { randomUUID } from "node:crypto";
import type { OpenTls } from "@dm-env-rpc/transport";
import { systemTime, type TimeSource } from "@dm-env-rpc/transport/internal";
import type { Kind } from "../model/model.ts";
import {
  type Change,
  type Changes,
  type CommitResult,
  checkOnce,
  type Entry,
  fenced,
  keyText,
  type Lease,
  lostLife,
  type RecordKey,
  type Store,
} from "../store/store.ts";
import { openRedis, type RedisLink, type Reply } from "./redis-link.ts";
import {
  acquireScript,
  beginLifeScript,
  changesScript,
  commitScript,
  commitWhenFullScript,
  releaseScript,
  renewScript,
} from "./scripts.ts";

/** Options of `redisStore`. */
export interface RedisStoreOptions {
  /** Address, such as `redis://127.0.0.1:6379/0`. With `rediss://`, connections use TLS. */
  readonly url: string;
  /**
   * For `rediss://`: the authority to trust, and the certificate to present if Redis requests one
   * (mTLS).
   */
  readonly tls?: OpenTls | undefined;
  /**
   * Prefix of all keys. Matchmakers with the same prefix share a store. Default `{matchmaker}:`.
   */
  readonly prefix?: string | undefined;
  /** Time limit of the first connection, in ms. Default 5,000. */
  readonly connectMs?: number | undefined;
  /**
   * Time limit of a command, in ms. A connection on which a command takes longer is replaced: its Redis may be
   * unreachable, and the address may lead to another one. Default 3,000.
   */
  readonly commandMs?: number | undefined;
  /** Interval of polling for changes, in ms: a notification may be lost. Default 1,000. */
  readonly pollMs?: number | undefined;
  /** Called when a connection is lost. The store reconnects by itself. Must not throw. */
  readonly onError?: ((error: Error) => void) | undefined;
  /**
   * Clock that measures the time since the last answer of Redis, and the time limits. The store's time is the time of Redis.
   * Default: the machine's.
   */
  readonly time?: TimeSource | undefined;
}

/** Number of deletions that are remembered. A reader that missed older deletions must start over. */
const maxDeleted = 10_000;

/**
 * Kinds whose new records are refused when Redis is full. New worlds, matches and reports are still
 * accepted, because the director needs them to end tickets. The deletion of ended tickets frees memory.
 */
const newcomers: ReadonlySet<Kind> = new Set(["ticket", "server", "profile"]);

/**
 * Opens a store in Redis. Several matchmakers may share it. Redis must:
 *
 * - have version 7 or later;
 * - be a primary, and neither a Sentinel nor a node of a Cluster;
 * - have `maxmemory-policy noeviction`;
 * - persist its data (`appendonly yes`): otherwise a restart of Redis loses the matchmakers' state.
 *
 * Persistence is not checked.
 *
 * @throws StoreError `unavailable` if Redis does not answer.
 * @throws StoreError `unsuitable` if Redis does not meet a requirement that is checked.
 */
export async function redisStore(options: RedisStoreOptions): Promise<Store> {
  const { time = systemTime, prefix = "{matchmaker}:", pollMs = 1_000 } = options;
  const key = (name: string): string => `${prefix}${name}`;
  const [life, records, log, version, deleted, forgotten] = [
    key("life"),
    key("records"),
    key("log"),
    key("version"),
    key("deleted"),
    key("forgotten"),
  ];
  const leaseKey = (name: string): string => key(`lease:${name}`);
  const channel = key("changed");
  const listeners = new Set<() => void>();
  const tell = (): void => {
    for (const listener of [...listeners]) {
      listener();
    }
  };
  /** Run id of the connected Redis. */
  let run = "";
  /** The latest life that Redis has reported. */
  let currentLife = "";
  const beginLife = async (runScript: RedisLink["run"]): Promise<void> => {
    currentLife = String(await runScript(beginLifeScript, [life, version], [run, randomUUID()]));
  };
  const link = await openRedis({
    url: options.url,
    tls: options.tls,
    prepare: async (runScript, info) => {
      run = info.get("run_id") ?? "unknown";
      await beginLife(runScript);
    },
    channel,
    connectMs: options.connectMs ?? 5_000,
    commandMs: options.commandMs ?? 3_000,
    time,
    onNews: tell,
    onError: (error) => options.onError?.(error),
  });
  /** Offset of Redis's clock from this machine's. */
  let aheadMs = 0;
  /**
   * Corrects the offset with an answer. Redis read its clock after the request and before now, so the offset
   * is from `readMs - now` to `readMs - askedMs`. If the known offset is in this range, it stays: an answer
   * that is processed late must not turn back the time.
   */
  const learnTime = (
    askedMs: number,
    seconds: Reply | undefined,
    microseconds: Reply | undefined,
  ): void => {
    const readMs = Number(seconds) * 1_000 + Number(microseconds) / 1_000;
    aheadMs = Math.min(Math.max(aheadMs, readMs - time.now()), readMs - askedMs);
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
    const askedMs = time.now();
    const [seconds, microseconds] = list(await link.command(["TIME"]));
    learnTime(askedMs, seconds, microseconds);
  } catch (error) {
    await close();
    throw error;
  }
  cancelPoll = time.after(pollMs, poll);

  return {
    now: () => time.now() + aheadMs,
    async commit(changes, { lease, life: planned } = {}): Promise<CommitResult> {
      checkOnce(changes);
      const args = [
        planned ?? "",
        lease === undefined ? "" : leaseValue(lease),
        channel,
        String(maxDeleted),
      ];
      for (const { kind, id, version: expected, value } of changes) {
        args.push(keyText({ kind, id }), String(expected));
        args.push(value === undefined ? "" : JSON.stringify(value));
      }
      const keys = [life, records, log, version, deleted, forgotten, leaseKey(lease?.name ?? "")];
      const script = changes.some(isNewcomer) ? commitScript : commitWhenFullScript;
      for (;;) {
        const [outcome, ...rest] = list(await link.run(script, keys, args));
        if (outcome === "fenced" && lease !== undefined) {
          throw fenced(lease);
        }
        if (outcome === "ok") {
          return { ok: true, version: Number(rest[0]) };
        }
        if (outcome === "conflict") {
          return { ok: false, conflicts: rest.map((text) => keyOf(String(text))) };
        }
        if (planned !== undefined) {
          throw lostLife();
        }
        await beginLife(link.run);
      }
    },
    async read(keys) {
      if (keys.length === 0) {
        return [];
      }
      const command = ["HMGET", records, ...keys.map(keyText)];
      const [stored, found] = await Promise.all([link.lookUp(["GET", life]), link.lookUp(command)]);
      // The connection for lookups may still lead to an earlier Redis, or may be restored later than the other one.
      const isCurrent = typeof stored === "string" && lifeOf(stored) === currentLife;
      const values = list(isCurrent ? found : await link.command(command));
      return keys.map((each, index) => entryOf(each, values[index]));
    },
    async changes(since, limit, known = new Set()): Promise<Changes> {
      const keys = [life, records, log, version, forgotten];
      const { life: ofPosition = "", version: from = 0, horizon = 0, newest = 0 } = since ?? {};
      const args = [ofPosition, ...[from, horizon, newest, limit, ...known].map(String)];
      const askedMs = time.now();
      let reply = list(await link.run(changesScript, keys, args));
      while (reply.length === 0) {
        // Redis was flushed.
        await beginLife(link.run);
        reply = list(await link.run(changesScript, keys, args));
      }
      const [current, lost, reset, cursor, newHorizon, more, seconds, microseconds, ...parts] =
        reply;
      currentLife = String(current);
      learnTime(askedMs, seconds, microseconds);
      const entries: Entry[] = [];
      for (let at = 0; at < parts.length; at += 3) {
        const entry = entryOf(keyOf(String(parts[at])), parts[at + 2]);
        entries.push({ ...entry, version: Number(parts[at + 1]) } as Entry);
      }
      const readTo = Number(cursor);
      return {
        entries,
        position: {
          life: currentLife,
          version: readTo,
          horizon: Number(newHorizon),
          newest: readTo,
        },
        more: more === "1",
        reset: reset === "1",
        lost: lost === "1",
      };
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async acquire(name, holder, ttlMs): Promise<Lease | undefined> {
      const epoch = randomUUID();
      const args = [holder, epoch, String(Math.ceil(ttlMs))];
      const taken = await link.run(acquireScript, [leaseKey(name)], args);
      return taken === 1 ? { name, holder, epoch } : undefined;
    },
    async renew(lease, ttlMs) {
      const args = [leaseValue(lease), String(Math.ceil(ttlMs))];
      return (await link.run(renewScript, [leaseKey(lease.name)], args)) === 1;
    },
    async release(lease) {
      await link.run(releaseScript, [leaseKey(lease.name)], [leaseValue(lease)]);
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

function list(reply: Reply): readonly Reply[] {
  if (Array.isArray(reply)) {
    return reply;
  }
  throw new Error(`expected a list from Redis, received ${JSON.stringify(reply)}`);
}

/** Returns the id of a stored life: the first word. */
function lifeOf(stored: string): string {
  return stored.split(" ", 1)[0] ?? "";
}

/** Stored form of a lease. */
function leaseValue({ holder, epoch }: Lease): string {
  return `${holder} ${epoch}`;
}

function isNewcomer({ kind, version, value }: Change): boolean {
  return version === 0 && value !== undefined && newcomers.has(kind);
}

function keyOf(text: string): RecordKey {
  const slash = text.indexOf("/");
  return { kind: text.slice(0, slash) as Kind, id: text.slice(slash + 1) };
}

/** Parses a stored record: its version, a space, and JSON. */
function entryOf({ kind, id }: RecordKey, text: Reply | undefined): Entry {
  if (typeof text !== "string" || text === "") {
    return { kind, id, version: 0, value: undefined } as Entry;
  }
  const space = text.indexOf(" ");
  const value: unknown = JSON.parse(text.slice(space + 1));
  return { kind, id, version: Number(text.slice(0, space)), value } as Entry;
}
