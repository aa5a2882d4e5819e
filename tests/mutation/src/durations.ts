// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

const root = join(import.meta.dirname, "../../..");
/** Time that a test has without a mutant: machines stand still for seconds. */
export const firstRunMs = 180_000;
const spareMs = 2_000;

const recordOf = (testFile: string): string =>
  join(import.meta.dirname, "../reports/durations", `${relative(root, testFile)}.json`);

/** Records the time of the longest test of a file, without a mutant. */
export function recordLongest(testFile: string, longestMs: number): void {
  const record = recordOf(testFile);
  mkdirSync(dirname(record), { recursive: true });
  writeFileSync(record, JSON.stringify(longestMs));
}

/**
 * Returns the time after which a test of a file fails: mutants make tests hang. It is five times the time of the longest
 * test of the file, and two seconds more.
 */
export function limitOf(testFile: string): number {
  const record = recordOf(testFile);
  if (!existsSync(record)) {
    return firstRunMs;
  }
  const longestMs: number = JSON.parse(readFileSync(record, "utf8"));
  return Math.ceil(spareMs + 5 * longestMs);
}
