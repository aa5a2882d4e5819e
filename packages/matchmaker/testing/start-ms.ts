// SPDX-License-Identifier: Apache-2.0

/** Start of the tests' manual clocks: a date, because signed tokens contain dates. */
export const startMs: number = Date.UTC(2030, 0, 1);
