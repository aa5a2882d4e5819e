// SPDX-License-Identifier: Apache-2.0

/** A value, or a promise of it. */
export type Awaitable<T> = T | PromiseLike<T>;

/** Returns true if a value is a promise. */
export function isPromiseLike<T>(value: Awaitable<T>): value is PromiseLike<T> {
  return typeof value === "object" && value !== null && "then" in value;
}

/** Calls `use` with a value: at once, or when its promise has resolved. */
export function andThen<T, R>(value: Awaitable<T>, use: (value: T) => Awaitable<R>): Awaitable<R> {
  return isPromiseLike(value) ? value.then(use) : use(value);
}
