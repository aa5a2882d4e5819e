// SPDX-License-Identifier: Apache-2.0
import type { Kind, Records } from "../model/model.ts";
import { type RecordKey, RecordMap } from "./record-map.ts";

export type { RecordKey } from "./record-map.ts";

/** A record and its version. A change of the record must contain this version. */
export interface Stored<T> {
  /** Version of the commit that wrote the record. The versions of a store only grow. */
  readonly version: number;
  readonly value: T;
}

/** A write or the deletion of a record. */
export type Change = {
  [K in Kind]: {
    readonly kind: K;
    readonly id: string;
    /** Expected version; 0 if the record must not exist. */
    readonly version: number;
    /** `undefined` deletes the record. */
    readonly value: Records[K] | undefined;
  };
}[Kind];

/** The current state of a record: its version, and its value if the record exists. */
export type Entry = {
  [K in Kind]: {
    readonly kind: K;
    readonly id: string;
    /** For a record that does not exist: 0, or the version of its deletion. */
    readonly version: number;
    readonly value: Records[K] | undefined;
  };
}[Kind];

/** Result of a commit: all changes were made, or none was made because of the conflicting records. */
export type CommitResult =
  | { readonly ok: true; readonly version: number }
  | { readonly ok: false; readonly conflicts: readonly RecordKey[] };

/**
 * A point in the history of a store. A store begins another life when it was flushed or restarted, because it
 * may then have lost commits. Versions from different lives cannot be compared.
 */
export interface Position {
  readonly life: string;
  /** Commits up to this version have been read. */
  readonly version: number;
  /**
   * The reader knows all deletions up to this version. It has read each of them, or has later read all records
   * again (started over).
   */
  readonly horizon: number;
  /**
   * Greatest version that the reader knows. It is greater than `version` if the reader knows newer versions
   * from its own commits or from single records that it has read. If the store has lost this version, the
   * reader must start over.
   */
  readonly newest: number;
}

/** Changes since a position. */
export interface Changes {
  /** The latest state of each changed or deleted record, in the order of versions. */
  readonly entries: readonly Entry[];
  /** The position to continue from. */
  readonly position: Position;
  /** True if there are more changes to read. */
  readonly more: boolean;
  /**
   * True if the reader must start over. This page is then the first page of all records, and a record that
   * is in none of the pages does not exist.
   */
  readonly reset: boolean;
  /** True if the store has lost commits that the given position includes. */
  readonly lost: boolean;
}

/** A named lock. Its holder keeps the lease by renewing it in time, and may release it earlier. */
export interface Lease {
  readonly name: string;
  /** The process that holds the lease. */
  readonly holder: string;
  /** Identifies this acquisition. No epoch is used twice, even if the store has lost its data. */
  readonly epoch: string;
}

/** Conditions of a commit, in addition to the versions of its records. */
export interface CommitOptions {
  /** The lease that must still be held. */
  readonly lease?: Lease | undefined;
  /** The life of the store in which the changes were planned. Default: any. */
  readonly life?: string | undefined;
}

/**
 * The state of a matchmaker: records with versions. A commit changes any number of records atomically.
 * Several matchmakers may share a store.
 *
 * Every function except `now`, `onChange` and `close` rejects with a StoreError `unavailable` if the store
 * cannot be reached. The outcome of the call is then unknown.
 */
export interface Store extends AsyncDisposable {
  /** The store's time, the same for all its users, in milliseconds since 1970. */
  now(): number;
  /**
   * Makes all changes, or none.
   *
   * @throws StoreError `fenced` if the lease is no longer held; nothing has changed.
   * @throws StoreError `lost` if the store has begun another life; nothing has changed.
   * @throws StoreError `full` if the store has no memory left for new tickets, servers and profiles; nothing
   *   has changed.
   * @throws Error if the changes contain a record twice.
   */
  commit(changes: readonly Change[], options?: CommitOptions): Promise<CommitResult>;
  /** Returns the current records, in the order of the keys. */
  read(keys: readonly RecordKey[]): Promise<readonly Entry[]>;
  /**
   * Returns a page of the changes since a position, or of all records if the position is undefined. A page
   * contains whole commits, and ends once it has at least `limit` records. Records that are omitted because
   * of `known` may count towards the limit.
   *
   * @param known Versions of commits that the reader has already applied. Unless the reader must start over,
   *   the page may omit records that have one of these versions.
   */
  changes(
    since: Position | undefined,
    limit: number,
    known?: ReadonlySet<number>,
  ): Promise<Changes>;
  /**
   * Calls `listener` when a record may have changed.
   *
   * @returns A function that removes the listener.
   */
  onChange(listener: () => void): () => void;
  /**
   * Acquires a lease unless another holder has it. A holder may acquire its own lease again, for example if
   * the response was lost. The lease then has a new epoch, and commits with the old epoch are fenced.
   */
  acquire(name: string, holder: string, ttlMs: number): Promise<Lease | undefined>;
  /** Renews a lease. Returns false if the lease is lost. */
  renew(lease: Lease, ttlMs: number): Promise<boolean>;
  /** Releases a lease. */
  release(lease: Lease): Promise<void>;
  /** Closes the store. Idempotent. */
  close(): Promise<void>;
}

/** Reason why a store refused a call. */
export type StoreErrorReason =
  /** The lease of a commit is no longer held. */
  | "fenced"
  /** The store has begun another life after the commit was planned. */
  | "lost"
  /** The store has no memory left for new records. */
  | "full"
  /** The store does not answer. */
  | "unavailable"
  /** The store cannot be used with its version, mode or configuration. */
  | "unsuitable";

/** An error of a store. */
export class StoreError extends Error {
  override readonly name = "StoreError";
  readonly reason: StoreErrorReason;

  constructor(reason: StoreErrorReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** Returns true for a StoreError: one with the given reason, or any if no reason is given. */
export function isStoreError(value: unknown, reason?: StoreErrorReason): value is StoreError {
  return (
    value instanceof Error &&
    value.name === "StoreError" &&
    (reason === undefined || (value as StoreError).reason === reason)
  );
}

/** Creates the error of a commit whose lease is no longer held. */
export function fenced(lease: Lease): StoreError {
  return new StoreError(
    "fenced",
    `the lease "${lease.name}" is no longer held by ${lease.holder}; nothing was changed`,
  );
}

/** Creates the error of a commit that was planned in an earlier life of its store. */
export function lostLife(): StoreError {
  return new StoreError(
    "lost",
    "the store may have lost commits since this commit was planned; nothing was changed",
  );
}

/**
 * Checks that a commit contains each record at most once. If a ticket or a world was planned for two
 * matches by mistake, the commit contains it twice.
 *
 * @throws Error naming the record.
 */
export function checkOnce(changes: readonly Change[]): void {
  const keys = new RecordMap<true>();
  for (const change of changes) {
    if (keys.has(change)) {
      throw new Error(
        `commit of ${changes.length} changes: expected each record once, received "${keyText(change)}" twice`,
      );
    }
    keys.set(change, true);
  }
}

/** Returns a record's key as one string. */
export function keyText({ kind, id }: RecordKey): string {
  return `${kind}/${id}`;
}
