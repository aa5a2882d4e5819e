// SPDX-License-Identifier: Apache-2.0

/** Counts the items at the start of a sorted list for which `isBefore` is true, by binary search. */
export function countBefore<T>(
  list: readonly T[],
  isBefore: (item: T, index: number) => boolean,
): number {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(list[middle] as T, middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** Edits of a sorted list. */
export interface Edits<T> {
  /** In any order. */
  readonly removed: readonly T[];
  /** In the order of the list. */
  readonly added: readonly T[];
  /** Returns the index of an item in the list; for a new item, the index at which to insert it. */
  placeOf(item: T): number;
}

/** Receives the parts of an edited list, in order. */
export interface EditedParts<K, T> {
  /** Receives consecutive items that stay, possibly none. The first item had the index `start`. */
  keep(items: readonly K[], start: number): void;
  add(item: T): void;
}

/**
 * Visits a list as it will be after the edits, in order. Calls `keep` with each run of items that stay, and
 * `add` with each added item. `placeOf` is called only for added and removed items, so few edits of a long
 * list need few comparisons.
 */
export function visitEdited<K, T>(
  list: readonly K[],
  { removed, added, placeOf }: Edits<T>,
  { keep, add }: EditedParts<K, T>,
): void {
  const holes = Uint32Array.from(removed, placeOf).sort();
  let [from, nextHole] = [0, 0];
  const keepUntil = (end: number): void => {
    while (from < end) {
      const stop = Math.min(end, holes[nextHole] ?? end);
      keep(list.slice(from, stop), from);
      from = stop;
      if (from < end) {
        from += 1;
        nextHole += 1;
      }
    }
  };
  for (const item of added) {
    keepUntil(placeOf(item));
    add(item);
  }
  keepUntil(list.length);
}
