// SPDX-License-Identifier: Apache-2.0
import { tooManyElements } from "../../errors/limits.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import type { Reader } from "../primitives/reader.ts";
import { countVarints } from "../primitives/varints.ts";

/** Sixteen bytes of varints, which take about 50 ns, cost 1. */
const workShift = 4;

/** Checks that the last varint of a field ends at the end of the field. */
export function checkVarints(reader: Reader, start: number, end: number): void {
  if (end > start && (reader.source[end - 1] as number) > 0x7f) {
    throw reader.malformed("the end of a varint", "the end of its field", end - 1);
  }
}

/** Returns the number of varints from the reader's position to its end, within the limit. */
export function countElements(reader: Reader, { maxElements }: ReadOptions): number {
  const { source, pos, end } = reader;
  checkVarints(reader, pos, end);
  reader.spend((end - pos) >>> workShift);
  const count = countVarints(source, pos, end);
  if (count > maxElements) {
    throw tooManyElements(count, maxElements);
  }
  return count;
}

/** Creates the error for a varint of more than ten bytes. */
export function tooLong(reader: Reader): Error {
  return reader.malformed("varints of at most ten bytes", "a longer one");
}
