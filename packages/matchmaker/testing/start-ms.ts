// SPDX-License-Identifier: Apache-2.0

/** Where the manual clocks of the tests start: a date, for what is signed has dates. */
export const startMs: number = Date.UTC(2030, 0, 1);
