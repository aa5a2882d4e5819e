// SPDX-License-Identifier: Apache-2.0

/**
 * Attacks that may miss a bar, with the reason. The table prints it, and the sum of all suites counts them as
 * skipped.
 */
export const openRows: Readonly<Record<string, string>> = {
  "zero window: lists of properties that are never read":
    "resident memory of some 520 MB in a full run, of which 200 are V8's heap",
  "deaf: 500 agents that step for pictures and never read":
    "resident memory of 350 to 750 MB on an idle machine: V8 frees the pictures later than they are made",
  "deaf: 2,000 streams of creates that are never read":
    "resident memory of some 640 MB and a stall of 0.5 s on an idle machine",
};
