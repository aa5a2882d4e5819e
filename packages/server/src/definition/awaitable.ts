// SPDX-License-Identifier: Apache-2.0

/** A value now or later. */
export type Awaitable<T> = T | PromiseLike<T>;

/** Whether a value comes later. */
export function isPromiseLike<T>(value: Awaitable<T>): value is PromiseLike<T> {
  return typeof value === "object" && value !== null && "then" in value;
}
