// SPDX-License-Identifier: Apache-2.0
import type { Kind, Records } from "../model.ts";

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

/** What has changed since a version. */
export interface Changes {
  /** The latest state of each record that changed, in the order of versions, the deleted ones included. */
  readonly entries: readonly Entry[];
  /** Where to go on. */
  readonly cursor: number;
  /** Whether there is more already. */
  readonly more: boolean;
  /** The store is not the one that the version came from: forget everything first. */
  readonly reset: boolean;
}

/** A name that one owner holds until it lets go, or does not renew in time. */
export interface Lease {
  readonly name: string;
  /** The fence: no two leases of a store have the same one, later ones are larger. */
  readonly token: number;
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
   * @param fence Must still be held.
   * @throws StoreError `fenced` when it is not; nothing has changed then.
   */
  commit(changes: readonly Change[], fence?: Lease): Promise<CommitResult>;
  /** Records as they are now, in the order of the keys. */
  read(keys: readonly RecordKey[]): Promise<readonly Entry[]>;
  /** What has changed since a version, 0 for everything, at most `limit` records of it. */
  changes(since: number, limit: number): Promise<Changes>;
  /** Calls back when something may have changed, until the function that it returns is called. */
  onChange(listener: () => void): () => void;
  /** Takes a lease, unless somebody has it. */
  acquire(name: string, ttlMs: number): Promise<Lease | undefined>;
  /** Holds a lease for longer; false when it is lost. */
  renew(lease: Lease, ttlMs: number): Promise<boolean>;
  /** Lets go of a lease. */
  release(lease: Lease): Promise<void>;
  /** Lets go of the store. Idempotent. */
  close(): Promise<void>;
}

/** Why a store did not do what it was asked. */
export class StoreError extends Error {
  override readonly name = "StoreError";
  readonly reason: "fenced" | "unavailable";

  constructor(reason: StoreError["reason"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** Whether a value is a StoreError, of one reason or of any. */
export function isStoreError(value: unknown, reason?: StoreError["reason"]): value is StoreError {
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
    `the lease "${lease.name}" (${lease.token}) is no longer held; nothing was changed`,
  );
}

/** A record's key as one string. */
export function keyText({ kind, id }: RecordKey): string {
  return `${kind}/${id}`;
}
