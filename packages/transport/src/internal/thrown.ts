// SPDX-License-Identifier: Apache-2.0

/** Returns the message of a thrown value, without the code that a ConnectError prefixes. */
export function messageOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) {
    return textOf(thrown);
  }
  return "rawMessage" in thrown && typeof thrown.rawMessage === "string"
    ? thrown.rawMessage
    : thrown.message;
}

/** Returns a thrown value as an Error; a value of another type becomes its `cause`. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(textOf(thrown), { cause: thrown });
}

function textOf(thrown: unknown): string {
  try {
    return String(thrown);
  } catch {
    return "a value without a text"; // Such as `Object.create(null)`.
  }
}
