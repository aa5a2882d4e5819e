// SPDX-License-Identifier: Apache-2.0

/** Shortens a name for errors, because a client may send a name of any length. */
export function shorten(name: string): string {
  return name.length <= 100 ? name : `${name.slice(0, 100)}… (${name.length} characters)`;
}
