// SPDX-License-Identifier: Apache-2.0
import type { Kind, Records } from "../model/model.ts";
import { RecordMap } from "../store/record-map.ts";
import {
  type Change,
  type Changes,
  type Entry,
  isStoreError,
  type Lease,
  type Position,
  type Store,
  type Stored,
} from "../store/store.ts";

/** Records per read of the store. */
const pageSize = 2_000;
/** Maximum number of own commits whose versions are passed to the store, so that a read need not return them. */
const maxKnown = 1_000;

/**
 * A change of a record in the replica. `before` is undefined if the record did not exist, and `after` is
 * undefined if the record was deleted.
 */
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
 * A copy of the store in this process. The copy follows the store with a delay. A commit that was planned
 * on an outdated record fails, and refreshes that record.
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
  /** Deleted records. Each is kept until the position reaches the version of the record's deletion. */
  readonly #deleted = new RecordMap<Entry>();
  /** Versions of this process's own commits that are newer than the position. `sync` need not read these. */
  readonly #known = new Set<number>();
  readonly #onLost: (records: number) => void;
  #position: Position | undefined;
  /** Greatest version that has been applied. */
  #newest = 0;
  /** True while all records are being read again. */
  #isStartingOver = false;
  #syncing: Promise<void> | undefined;

  /**
   * @param onLost Called with the number of affected records when the store has lost commits.
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
    // The store may have begun another life (see `Position`). Versions of different lives cannot be compared.
    if (this.#isStartingOver) {
      await this.sync();
      return;
    }
    for (const [index, entry] of entries.entries()) {
      // For a missing record, the store may return no version to compare. So the known record is deleted
      // only if it has not changed during this read.
      const unchanged = this.get(entry.kind, entry.id)?.version === known[index];
      this.#apply(entry, unchanged);
    }
  }

  /**
   * Commits changes. Then applies the changes to the replica or, after a conflict, reads the conflicting
   * records.
   *
   * @returns True if the changes were committed; false if a record was not as planned, or if the store has
   *   lost commits since the changes were planned.
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
      // In the meantime the store has begun another life. The commit belongs to the previous life.
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

  /** Reads all records, and only then applies the differences, so that no record seems deleted meanwhile. */
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
      // The pages may lack the latest commits of this process. So the next read must return those commits
      // although they are known.
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
    // The replica has all changes up to its position. So an entry up to there that it lacks is outdated: the
    // store read the entry before a change that the replica has applied earlier.
    const latest = Math.max(known?.version ?? 0, this.#position?.version ?? 0);
    // The store may return a deleted record with version 0, which is never newer. So if the known record has
    // not changed during the read (`isFresh`), it is deleted whatever the version.
    const isNews = isFresh && value === undefined ? true : version > latest;
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

/** Returns a change that writes a record. `before` is the stored record that `value` was made from. */
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
