// SPDX-License-Identifier: Apache-2.0
import { tooManyElements } from "../../errors/limits.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import type { Reader } from "../primitives/reader.ts";
import { countVarints } from "../primitives/varints.ts";

/** Packed varints cost 1 unit of work per 2^4 bytes, which take about 50 ns to decode. */
const workShift = 4;

/** Checks that the last varint of a field ends at the end of the field. */
export function checkVarints(reader: Reader, start: number, end: number): void {
  if (end > start && (reader.source[end - 1] as number) > 0x7f) {
    const received = "a byte after which the varint continues, at the end of its field";
    throw reader.malformed("the last byte of a varint", received, end - 1);
  }
}

/** Returns the work of reading varints of `bytes` bytes. */
export function varintsWork(bytes: number): number {
  return bytes >>> workShift;
}

/** Counts the varints from the reader's position to its end, within the limits, before they are decoded. */
export function countElements(reader: Reader, { maxElements }: ReadOptions): number {
  const { source, pos, end } = reader;
  checkVarints(reader, pos, end);
  reader.spend(varintsWork(end - pos));
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
