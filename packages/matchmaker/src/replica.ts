// SPDX-License-Identifier: Apache-2.0
import type { Kind, Records } from "./model.ts";
import {
  type Change,
  type Entry,
  keyText,
  type Lease,
  type Store,
  type Stored,
} from "./store/store.ts";

/** Records that are read from the store at a time. */
const pageSize = 2_000;

/** A record changed, as far as this process knows: `undefined` is one that there is not. */
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
 * A copy of the store in this process, which follows it and may be behind it. A commit that was
 * planned on an old record fails, and refreshes that record.
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
  /** Records that are known to be deleted, until the cursor has passed their versions. */
  readonly #deleted = new Map<string, number>();
  #cursor = 0;
  #syncing: Promise<void> | undefined;

  constructor(store: Store) {
    this.#store = store;
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

  /** Calls back after each change of a record, until the function that it returns is called. Must not throw. */
  onChange(listener: (change: ReplicaChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Catches up with the store. Calls at the same time share one. */
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
    for (const [index, entry] of entries.entries()) {
      // What is gone has no version to compare; it must not undo what was learned meanwhile.
      const unchanged = this.get(entry.kind, entry.id)?.version === known[index];
      this.#apply(entry, unchanged);
    }
  }

  /**
   * Commits, and knows the outcome: what was written, or what stood in the way.
   *
   * @returns Whether it was committed.
   * @throws StoreError as the store's commit does.
   */
  async commit(changes: readonly Change[], fence?: Lease): Promise<boolean> {
    if (changes.length === 0) return true;
    const result = await this.#store.commit(changes, fence);
    if (!result.ok) {
      await this.refresh(result.conflicts);
      return false;
    }
    for (const { kind, id, value } of changes) {
      this.#apply({ kind, id, value, version: result.version } as Entry, false);
    }
    return true;
  }

  async #catchUp(): Promise<void> {
    for (;;) {
      const { entries, cursor, more, reset } = await this.#store.changes(this.#cursor, pageSize);
      if (reset) this.#forgetAll();
      for (const entry of entries) this.#apply(entry, false);
      this.#cursor = cursor;
      for (const [text, version] of this.#deleted) {
        if (version <= cursor) this.#deleted.delete(text);
      }
      if (!more) return;
    }
  }

  #apply(entry: Entry, isFresh: boolean): void {
    const { kind, id, version, value } = entry;
    const table = this.#tables[kind] as Map<string, Stored<Records[Kind]>>;
    const known = table.get(id);
    const text = keyText(entry);
    // A record that was never there has version 0: that is news only where it was just read.
    const isNews = isFresh && value === undefined ? true : version > (known?.version ?? 0);
    if (!isNews || version < (this.#deleted.get(text) ?? 0)) return;
    if (value === undefined) {
      if (version > this.#cursor) this.#deleted.set(text, version);
      if (known === undefined) return;
      table.delete(id);
    } else {
      this.#deleted.delete(text);
      table.set(id, { version, value });
    }
    this.#tell({ kind, id, before: known?.value, after: value } as ReplicaChange);
  }

  #forgetAll(): void {
    this.#deleted.clear();
    for (const kind of Object.keys(this.#tables) as Kind[]) {
      for (const [id, { value }] of [...this.#tables[kind]]) {
        this.#tables[kind].delete(id);
        this.#tell({ kind, id, before: value, after: undefined } as ReplicaChange);
      }
    }
  }

  #tell(change: ReplicaChange): void {
    for (const listener of this.#listeners) listener(change);
  }
}

/** A change that writes a record: `before` is what it was made from. */
export function put<K extends Kind>(
  kind: K,
  id: string,
  before: Stored<Records[K]> | undefined,
  value: Records[K],
): Change {
  return { kind, id, version: before?.version ?? 0, value } as Change;
}

/** A change that deletes a record. */
export function remove<K extends Kind>(kind: K, id: string, before: Stored<Records[K]>): Change {
  return { kind, id, version: before.version, value: undefined } as Change;
}
