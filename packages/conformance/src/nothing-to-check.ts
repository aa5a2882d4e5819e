// SPDX-License-Identifier: Apache-2.0

/** Ends a check that finds in a world nothing to try its rule on: it has neither passed nor failed. */
export class NothingToCheck extends Error {
  override readonly name = "NothingToCheck";
}

/**
 * The entries that a check needs.
 *
 * @throws NothingToCheck when there are none.
 */
export function needed<T>(entries: readonly T[], what: string): readonly T[] {
  if (entries.length === 0) {
    throw new NothingToCheck(`the world has no ${what}`);
  }
  return entries;
}
