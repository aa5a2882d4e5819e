// SPDX-License-Identifier: Apache-2.0
import type { Kind, Records } from "../model.ts";
import { RecordMap } from "./record-map.ts";

/** A record with the version that a change of it must name. */
export interface Stored<T> {
  /** Of the commit that wrote it; versions of a store only grow. */
  readonly version: number;
  readonly value: T;
}

/** Writes a record, or deletes it. */
export type Change = {
  [K in Kind]: {
    readonly kind: K;
    readonly id: string;
    /** The version that it must have; 0: there must be none. */
    readonly version: number;
    /** `undefined` deletes it. */
    readonly value: Records[K] | undefined;
  };
}[Kind];

/** Which record. */
export interface RecordKey {
  readonly kind: Kind;
  readonly id: string;
}

/** A record as it is: with its version, and without a value where there is none. */
export type Entry = {
  [K in Kind]: {
    readonly kind: K;
    readonly id: string;
    /** 0 where there never was one, as far as the store remembers. */
    readonly version: number;
    readonly value: Records[K] | undefined;
  };
}[Kind];

/** What a commit came to: all of it, or nothing and which records were not as it said. */
export type CommitResult =
  | { readonly ok: true; readonly version: number }
  | { readonly ok: false; readonly conflicts: readonly RecordKey[] };

/**
 * A point in the history of a store. A store begins another life when it may have lost commits (it was flushed, or
 * restarted): positions of two lives are not compared by their versions.
 */
export interface Position {
  readonly life: string;
  /** Commits up to this version have been read. */
  readonly version: number;
  /** Deletions up to this version are known: they came before the first page of a reader that began anew. */
  readonly horizon: number;
}

/** What has changed since a position. */
export interface Changes {
  /** The latest state of each record that changed, in the order of versions, the deleted ones included. */
  readonly entries: readonly Entry[];
  /** Where to go on. */
  readonly position: Position;
  /** True if there are more changes to read. */
  readonly more: boolean;
  /** True if the entries begin at the start of the store: records that are not among them do not exist. */
  readonly reset: boolean;
  /** True if the store has lost commits that the given position includes. */
  readonly lost: boolean;
}

/** A name that one holder has until it releases it, or does not renew it in time. */
export interface Lease {
  readonly name: string;
  /** The process that holds it. */
  readonly holder: string;
  /** Names this acquisition. Never repeats, not even when the store has lost its data. */
  readonly epoch: string;
}

/** What a commit depends on besides its records. */
export interface CommitOptions {
  /** The lease that must still be held. */
  readonly lease?: Lease | undefined;
  /** The life of the store that the changes were planned on. Default: any. */
  readonly life?: string | undefined;
}

/**
 * Where the state of a matchmaker is: records with versions, changed many at a
 * time or not at all. Several matchmakers may share one.
 *
 * Every function but `now` and `onChange` rejects with a StoreError `unavailable` when the store cannot be
 * reached; then what was asked may have happened or not.
 */
export interface Store extends AsyncDisposable {
  /** The store's time, the same for all who share it, in milliseconds since 1970. */
  now(): number;
  /**
   * Makes all changes, or none.
   *
   * @throws StoreError `fenced` when the lease is no longer held, `lost` when the store has begun another life, `full`
   * when it has no memory left for new tickets, servers and profiles. Nothing has changed then.
   * @throws Error when the changes hold a record twice.
   */
  commit(changes: readonly Change[], options?: CommitOptions): Promise<CommitResult>;
  /** Records as they are now, in the order of the keys. */
  read(keys: readonly RecordKey[]): Promise<readonly Entry[]>;
  /** What has changed since a position, `undefined` for everything, at most `limit` records of it. */
  changes(since: Position | undefined, limit: number): Promise<Changes>;
  /** Calls back when something may have changed, until the function that it returns is called. */
  onChange(listener: () => void): () => void;
  /**
   * Takes a lease unless another holder has it. A holder that acquires its own lease again gets it with a new
   * epoch, and the lease that it had is fenced: an acquisition whose answer was lost can be repeated.
   */
  acquire(name: string, holder: string, ttlMs: number): Promise<Lease | undefined>;
  /** Holds a lease for longer; false when it is lost. */
  renew(lease: Lease, ttlMs: number): Promise<boolean>;
  /** Lets go of a lease. */
  release(lease: Lease): Promise<void>;
  /** Lets go of the store. Idempotent. */
  close(): Promise<void>;
}

/** Why a store refused a call. */
export type StoreErrorReason =
  /** The lease of a commit is no longer held. */
  | "fenced"
  /** The store has begun another life since the commit was planned. */
  | "lost"
  /** The store has no memory left for new records. */
  | "full"
  /** The store does not answer. */
  | "unavailable"
  /** The store cannot be used: its version, mode or configuration would lose data. */
  | "unsuitable";

/** The error of a store. */
export class StoreError extends Error {
  override readonly name = "StoreError";
  readonly reason: StoreErrorReason;

  constructor(reason: StoreErrorReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** Returns true for a StoreError, of one reason or of any. */
export function isStoreError(value: unknown, reason?: StoreErrorReason): value is StoreError {
  return (
    value instanceof Error &&
    value.name === "StoreError" &&
    (reason === undefined || (value as StoreError).reason === reason)
  );
}

/** The error of a commit whose lease is no longer held. */
export function fenced(lease: Lease): StoreError {
  return new StoreError(
    "fenced",
    `the lease "${lease.name}" is no longer held by ${lease.holder}; nothing was changed`,
  );
}

/** The error of a commit that was planned on an earlier life of its store. */
export function lostLife(): StoreError {
  return new StoreError(
    "lost",
    "the store may have lost commits since this one was planned; nothing was changed",
  );
}

/**
 * Checks that a commit holds each record once: a ticket that is planned for two matches, or a world that is used
 * for two, is in it twice.
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

/** A record's key as one string. */
export function keyText({ kind, id }: RecordKey): string {
  return `${kind}/${id}`;
}
