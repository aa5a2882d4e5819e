// SPDX-License-Identifier: Apache-2.0

/**
 * Attacks that may miss a bar, with the reason. The table prints it, and the sum of all suites counts them as
 * skipped.
 */
export const openRows: Readonly<Record<string, string>> = {};
