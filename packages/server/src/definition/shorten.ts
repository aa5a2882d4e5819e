// SPDX-License-Identifier: Apache-2.0

/** A name as errors show it: anybody may send one, of any length. */
export function shorten(name: string): string {
  return name.length <= 100 ? name : `${name.slice(0, 100)}… (${name.length} characters)`;
}
