// SPDX-License-Identifier: Apache-2.0
import type { Kind, Records } from "./model.ts";
import { RecordMap } from "./store/record-map.ts";
import {
  type Change,
  type Changes,
  type Entry,
  isStoreError,
  type Lease,
  type Position,
  type Store,
  type Stored,
} from "./store/store.ts";

/** Records per read of the store. */
const pageSize = 2_000;
/** Maximum number of known versions sent with a read of the store. */
const maxKnown = 1_000;

/** A changed record as this process knows it: `before` or `after` is undefined if no record exists. */
export type ReplicaChange = {
  [K in Kind]: {
    readonly kind: K;
    readonly id: string;
    readonly before: Records[K] | undefined;
    readonly after: Records[K] | undefined;
  };
}[Kind];

/** The records of one kind, by id. */
export type Table<K extends Kind> = ReadonlyMap<string, Stored<Records[K]>>;

/**
 * A copy of the store in this process, which follows it with a delay. A commit that was planned on
 * an outdated record fails, and refreshes that record.
 */
export class Replica {
  readonly #store: Store;
  readonly #tables: { readonly [K in Kind]: Map<string, Stored<Records[K]>> } = {
    profile: new Map(),
    server: new Map(),
    report: new Map(),
    world: new Map(),
    match: new Map(),
    ticket: new Map(),
    secret: new Map(),
  };
  readonly #listeners = new Set<(change: ReplicaChange) => void>();
  /** Deleted records, until the position has passed the versions of their deletions. */
  readonly #deleted = new RecordMap<Entry>();
  /** Versions of this process's own commits after the position: the store need not return them. */
  readonly #known = new Set<number>();
  readonly #onLost: (records: number) => void;
  #position: Position | undefined;
  /** Greatest version that has been applied. */
  #newest = 0;
  /** True while all records are being read again. */
  #isStartingOver = false;
  #syncing: Promise<void> | undefined;

  /**
   * @param onLost Called when the store has lost commits, with the number of affected records.
   */
  constructor(store: Store, onLost: (records: number) => void = () => {}) {
    this.#store = store;
    this.#onLost = onLost;
  }

  /** The store's time. */
  now(): number {
    return this.#store.now();
  }

  table<K extends Kind>(kind: K): Table<K> {
    return this.#tables[kind] as Table<K>;
  }

  get<K extends Kind>(kind: K, id: string): Stored<Records[K]> | undefined {
    return this.table(kind).get(id);
  }

  /**
   * Calls `listener` after each change of a record. `listener` must not throw.
   *
   * @returns A function that removes the listener.
   */
  onChange(listener: (change: ReplicaChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Catches up with the store. Concurrent calls share one request. */
  sync(): Promise<void> {
    this.#syncing ??= this.#catchUp().finally(() => {
      this.#syncing = undefined;
    });
    return this.#syncing;
  }

  /** Reads records that this process may not know yet. */
  async refresh(keys: readonly { readonly kind: Kind; readonly id: string }[]): Promise<void> {
    const known = keys.map(({ kind, id }) => this.get(kind, id)?.version);
    const entries = await this.#store.read(keys);
    // The records may come from another life of the store, whose versions cannot be compared.
    if (this.#isStartingOver) {
      await this.sync();
      return;
    }
    for (const [index, entry] of entries.entries()) {
      // A missing record may come without a version. So it deletes the known record only if the known
      // record has not changed during this read.
      const unchanged = this.get(entry.kind, entry.id)?.version === known[index];
      this.#apply(entry, unchanged);
    }
  }

  /**
   * Commits, and applies the outcome: the written records, or the conflicting records.
   *
   * @returns True if the changes were committed; false if a record was not as planned, or the store
   *   has lost commits in the meantime.
   * @throws StoreError as the store's commit does, except `lost`.
   */
  async commit(changes: readonly Change[], lease?: Lease): Promise<boolean> {
    if (changes.length === 0) {
      return true;
    }
    const life = this.#position?.life;
    try {
      const result = await this.#store.commit(changes, { lease, life });
      if (!result.ok) {
        await this.refresh(result.conflicts);
        return false;
      }
      // The store has begun another life, which does not contain this commit.
      if (this.#position?.life !== life) {
        return true;
      }
      for (const { kind, id, value } of changes) {
        this.#apply({ kind, id, value, version: result.version } as Entry, false);
      }
      if (this.#known.size < maxKnown) {
        this.#known.add(result.version);
      }
      return true;
    } catch (error) {
      if (!isStoreError(error, "lost")) {
        throw error;
      }
      await this.sync();
      return false;
    }
  }

  async #catchUp(): Promise<void> {
    let page: Changes;
    do {
      const since = this.#position && { ...this.#position, newest: this.#newest };
      page = await this.#store.changes(since, pageSize, this.#known);
      if (page.reset) {
        page = await this.#startOver(page);
      } else {
        for (const entry of page.entries) {
          this.#apply(entry, false);
        }
        this.#advance(page.position);
      }
    } while (page.more);
  }

  /** Reads all records, then applies the differences, so that no record seems deleted in between. */
  async #startOver(first: Changes): Promise<Changes> {
    this.#isStartingOver = true;
    try {
      let isLost = first.lost;
      let page = first;
      const entries = new RecordMap<Entry>();
      for (const entry of first.entries) {
        entries.set(entry, entry);
      }
      while (page.more) {
        page = await this.#store.changes(page.position, pageSize);
        isLost ||= page.lost;
        if (page.reset) {
          entries.clear();
        }
        for (const entry of page.entries) {
          entries.set(entry, entry);
        }
      }
      this.#deleted.clear();
      // The pages may lack the latest commits of this process, so the next read must not omit them as
      // known.
      this.#known.clear();
      let records = 0;
      for (const kind of Object.keys(this.#tables) as Kind[]) {
        for (const [id, known] of [...this.#tables[kind]]) {
          const entry = entries.get({ kind, id });
          if (entry?.value !== undefined && entry.version >= known.version) {
            continue;
          }
          records += 1;
          // If the store has an older version of the record, the loop below restores that version.
          if (entry?.value === undefined) {
            this.#set(kind, id, undefined);
          }
        }
      }
      for (const { kind, id, version, value } of entries.values()) {
        if (value === undefined || this.get(kind, id)?.version === version) {
          continue;
        }
        this.#set(kind, id, { version, value });
      }
      this.#advance(page.position);
      if (isLost) {
        this.#onLost(records);
      }
      return page;
    } finally {
      this.#isStartingOver = false;
    }
  }

  #advance(position: Position): void {
    this.#position = position;
    this.#newest = Math.max(this.#newest, position.version);
    for (const entry of this.#deleted.values()) {
      if (entry.version <= position.version) {
        this.#deleted.delete(entry);
      }
    }
    for (const version of this.#known) {
      if (version <= position.version) {
        this.#known.delete(version);
      }
    }
  }

  #apply(entry: Entry, isFresh: boolean): void {
    const { kind, id, version, value } = entry;
    const known = this.#tables[kind].get(id);
    // The store may return a deleted record with version 0, which is never newer. So a fresh read deletes
    // the known record whatever the version.
    const isNews = isFresh && value === undefined ? true : version > (known?.version ?? 0);
    if (!isNews || version < (this.#deleted.get(entry)?.version ?? 0)) {
      return;
    }
    this.#newest = Math.max(this.#newest, version);
    if (value === undefined) {
      if (version > (this.#position?.version ?? 0)) {
        this.#deleted.set(entry, entry);
      }
      if (known !== undefined) {
        this.#set(kind, id, undefined);
      }
    } else {
      this.#deleted.delete(entry);
      this.#set(kind, id, { version, value });
    }
  }

  #set(kind: Kind, id: string, stored: Stored<Records[Kind]> | undefined): void {
    const table = this.#tables[kind] as Map<string, Stored<Records[Kind]>>;
    const before = table.get(id)?.value;
    if (stored === undefined) {
      table.delete(id);
    } else {
      table.set(id, stored);
    }
    this.#tell({ kind, id, before, after: stored?.value } as ReplicaChange);
  }

  #tell(change: ReplicaChange): void {
    for (const listener of this.#listeners) {
      listener(change);
    }
  }
}

/** Returns a change that writes a record; `before` is the state that `value` was made from. */
export function put<K extends Kind>(
  kind: K,
  id: string,
  before: Stored<Records[K]> | undefined,
  value: Records[K],
): Change {
  return { kind, id, version: before?.version ?? 0, value } as Change;
}

/** Returns a change that deletes a record. */
export function remove<K extends Kind>(kind: K, id: string, before: Stored<Records[K]>): Change {
  return { kind, id, version: before.version, value: undefined } as Change;
}
