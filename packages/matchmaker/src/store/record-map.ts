// SPDX-License-Identifier: Apache-2.0
import type { Kind } from "../model/model.ts";

/** Kind and id of a record. */
export interface RecordKey {
  readonly kind: Kind;
  readonly id: string;
}

/**
 * A map keyed by record, with one inner map for each kind. So no access needs to build and hash a string of
 * kind and id.
 */
export class RecordMap<T> {
  readonly #kinds = new Map<Kind, Map<string, T>>();

  get({ kind, id }: RecordKey): T | undefined {
    return this.#kinds.get(kind)?.get(id);
  }

  has({ kind, id }: RecordKey): boolean {
    return this.#kinds.get(kind)?.has(id) === true;
  }

  set({ kind, id }: RecordKey, value: T): void {
    const known = this.#kinds.get(kind);
    if (known === undefined) {
      this.#kinds.set(kind, new Map([[id, value]]));
    } else {
      known.set(id, value);
    }
  }

  delete({ kind, id }: RecordKey): void {
    this.#kinds.get(kind)?.delete(id);
  }

  clear(): void {
    this.#kinds.clear();
  }

  get size(): number {
    let size = 0;
    for (const { size: ids } of this.#kinds.values()) {
      size += ids;
    }
    return size;
  }

  *values(): Generator<T, void, undefined> {
    for (const ids of this.#kinds.values()) {
      yield* ids.values();
    }
  }
}
