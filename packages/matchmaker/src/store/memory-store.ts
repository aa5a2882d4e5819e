// SPDX-License-Identifier: Apache-2.0

import { randomUUID } from "node:crypto";
import { systemTime, type TimeSource } from "@dm-env-rpc/transport/internal";
import { RecordMap } from "./record-map.ts";
import {
  type Change,
  type Changes,
  type CommitResult,
  checkOnce,
  type Entry,
  fenced,
  type Lease,
  lostLife,
  type Position,
  type RecordKey,
  type Store,
} from "./store.ts";

/** Number of deletions that are remembered. A reader that missed older deletions must start over. */
const maxDeleted = 10_000;

/** Options of `memoryStore`. */
export interface MemoryStoreOptions {
  /** Clock. Default: the machine's. */
  readonly time?: TimeSource | undefined;
}

/** Creates a store in the memory of this process, for one matchmaker. The store does not copy values. */
export function memoryStore({ time = systemTime }: MemoryStoreOptions = {}): Store {
  const history = new History();
  const leases = new Map<string, { lease: Lease; untilMs: number }>();
  const listeners = new Set<() => void>();

  const holds = (lease: Lease): boolean => {
    const held = leases.get(lease.name);
    return held?.lease.epoch === lease.epoch && time.now() < held.untilMs;
  };
  const close = async (): Promise<void> => listeners.clear();

  return {
    now: () => time.now(),
    async commit(changes, { lease, life } = {}): Promise<CommitResult> {
      checkOnce(changes);
      if (lease !== undefined && !holds(lease)) {
        throw fenced(lease);
      }
      if (life !== undefined && life !== history.life) {
        throw lostLife();
      }
      const conflicts = changes.filter((change) => {
        const { version, value } = history.entry(change);
        return (value === undefined ? 0 : version) !== change.version;
      });
      if (conflicts.length > 0) {
        return { ok: false, conflicts: conflicts.map(({ kind, id }) => ({ kind, id })) };
      }
      const version = history.write(changes);
      for (const listener of [...listeners]) {
        listener();
      }
      return { ok: true, version };
    },
    read: async (keys) => keys.map((key) => history.entry(key)),
    changes: async (since, limit, known) => history.changes(since, limit, known),
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async acquire(name, holder, ttlMs) {
      const held = leases.get(name);
      if (held !== undefined && held.lease.holder !== holder && time.now() < held.untilMs) {
        return undefined;
      }
      const lease = { name, holder, epoch: randomUUID() };
      leases.set(name, { lease, untilMs: time.now() + ttlMs });
      return lease;
    },
    async renew(lease, ttlMs) {
      if (!holds(lease)) {
        return false;
      }
      leases.set(lease.name, { lease, untilMs: time.now() + ttlMs });
      return true;
    },
    async release(lease) {
      if (holds(lease)) {
        leases.delete(lease.name);
      }
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** The latest state of each record, and the writes in order. */
class History {
  /** A store in memory has one life, which ends with the process. */
  readonly life: string = randomUUID();
  readonly #records = new RecordMap<Entry>();
  /**
   * Writes in order. A write is outdated once its record has a newer version. The list has the latest write
   * of each record, but may lack outdated writes.
   */
  #log: (RecordKey & { readonly version: number })[] = [];
  #deleted: Entry[] = [];
  #version = 0;
  /** Deletions up to this version may have been forgotten. */
  #forgotten = 0;

  entry(key: RecordKey): Entry {
    return (
      this.#records.get(key) ??
      ({ kind: key.kind, id: key.id, version: 0, value: undefined } as Entry)
    );
  }

  write(changes: readonly Change[]): number {
    this.#version += 1;
    const version = this.#version;
    for (const { kind, id, value } of changes) {
      const entry = { kind, id, version, value } as Entry;
      this.#records.set(entry, entry);
      this.#log.push({ kind, id, version });
      if (value === undefined) {
        this.#deleted.push(entry);
      }
    }
    if (this.#deleted.length > 2 * maxDeleted) {
      this.#forget();
    }
    if (this.#log.length > 2 * this.#records.size + 1_000) {
      this.#log = this.#log.filter((line) => this.#records.get(line)?.version === line.version);
    }
    return version;
  }

  changes(
    since: Position | undefined,
    limit: number,
    known: ReadonlySet<number> = new Set(),
  ): Changes {
    const { life } = this;
    const lost = since !== undefined && since.life !== life;
    const reset = lost || since === undefined || since.horizon < this.#forgotten;
    const from = reset ? 0 : since.version;
    const entries: Entry[] = [];
    let cursor = from;
    let index = this.#firstAfter(from);
    for (; index < this.#log.length; index++) {
      const line = this.#log[index];
      if (line === undefined) {
        break;
      }
      // A page never splits a commit.
      if (entries.length >= limit && line.version !== cursor) {
        break;
      }
      cursor = line.version;
      if (!reset && known.has(line.version)) {
        continue;
      }
      const entry = this.#records.get(line);
      if (entry?.version === line.version) {
        entries.push(entry);
      }
    }
    const more = index < this.#log.length;
    const version = more ? cursor : this.#version;
    const horizon = reset ? this.#version : Math.max(since.horizon, version);
    return { entries, position: { life, version, horizon, newest: version }, more, reset, lost };
  }

  #firstAfter(version: number): number {
    let low = 0;
    let high = this.#log.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#log[middle]?.version ?? 0) > version) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  #forget(): void {
    for (const entry of this.#deleted.splice(0, this.#deleted.length - maxDeleted)) {
      if (this.#records.get(entry) === entry) {
        this.#forgotten = Math.max(this.#forgotten, entry.version);
        this.#records.delete(entry);
      }
    }
  }
}
