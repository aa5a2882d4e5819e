// SPDX-License-Identifier: Apache-2.0

/** Shortens a peer's text for an error, by default to 100 characters. */
export function shorten(text: string, most = 100): string {
  return text.length <= most ? text : `${text.slice(0, most)}…`;
}
