// SPDX-License-Identifier: Apache-2.0

/** Skips a check because the world lacks what it needs; the check neither passes nor fails. */
export class NothingToCheck extends Error {
  override readonly name = "NothingToCheck";
}

/**
 * Returns the entries that a check needs.
 *
 * @throws NothingToCheck if there are none.
 */
export function needed<T>(entries: readonly T[], what: string): readonly T[] {
  if (entries.length === 0) {
    throw new NothingToCheck(`the world has no ${what}`);
  }
  return entries;
}
