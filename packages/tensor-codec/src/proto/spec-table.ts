// SPDX-License-Identifier: Apache-2.0
import type { FlatSpecs, TensorSpec } from "../specs/spec.ts";
import type { Uid } from "../wire/primitives/uid.ts";

/** A spec with its name and its key on the wire. */
export interface SpecEntry {
  readonly name: string;
  readonly uid: Uid;
  readonly spec: TensorSpec;
}

/**
 * The actions or the observations of an agent: names on this side, UIDs on the
 * wire (reference.md, "Specs"). Entries are in the order of their UIDs.
 */
export interface SpecTable {
  readonly entries: readonly SpecEntry[];
  readonly byName: ReadonlyMap<string, SpecEntry>;
  readonly byUid: ReadonlyMap<Uid, SpecEntry>;
}

/** Assigns each spec a UID, counted from `firstUid`, in the order of the given names. */
export function specTable(specs: FlatSpecs, firstUid = 1): SpecTable {
  return tableOf(
    Object.entries(specs).map(([name, spec], index) => ({ name, spec, uid: firstUid + index })),
  );
}

/** Creates a table of entries with known UIDs, such as the entries that a client receives. */
export function tableOf(entries: Iterable<SpecEntry>): SpecTable {
  const sorted = [...entries].sort((a, b) => (a.uid < b.uid ? -1 : a.uid > b.uid ? 1 : 0));
  return {
    entries: sorted,
    byName: new Map(sorted.map((entry) => [entry.name, entry])),
    byUid: new Map(sorted.map((entry) => [entry.uid, entry])),
  };
}
