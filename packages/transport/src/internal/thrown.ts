// SPDX-License-Identifier: Apache-2.0

/** The message of a thrown value, without the code that a ConnectError puts before its own. */
export function messageOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) {
    return textOf(thrown);
  }
  return "rawMessage" in thrown && typeof thrown.rawMessage === "string"
    ? thrown.rawMessage
    : thrown.message;
}

/** A thrown value as an Error; one that is none becomes the `cause`. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(textOf(thrown), { cause: thrown });
}

function textOf(thrown: unknown): string {
  try {
    return String(thrown);
  } catch {
    return "a value without a text"; // Such as Object.create(null).
  }
}
