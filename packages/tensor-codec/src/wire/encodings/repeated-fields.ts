// SPDX-License-Identifier: Apache-2.0
import { tooManyElements } from "../../errors/limits.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import { objectWork, type Reader } from "../primitives/reader.ts";
import { readUtf8 } from "../primitives/utf8.ts";
import { arrayTag } from "../primitives/wire-type.ts";

/** Moves to the next field `array` and skips unknown fields; returns false at the end. */
export function nextElement(reader: Reader, count: number, { maxElements }: ReadOptions): boolean {
  while (reader.pos < reader.end) {
    const tag = reader.tag();
    if (tag === arrayTag) {
      reader.spend(objectWork);
      if (count === maxElements) {
        throw tooManyElements(count + 1, maxElements);
      }
      return true;
    }
    reader.skip(tag);
  }
  return false;
}

/** Reads a string that is preceded by its length. */
export function readString(reader: Reader, options: ReadOptions): string {
  const stop = reader.delimited();
  const { source, pos } = reader;
  if (stop - pos > options.maxStringBytes) {
    throw tooLongString(reader, stop - pos, options);
  }
  const text = readUtf8(source, pos, stop);
  if (text === undefined) {
    throw reader.malformed("UTF-8", "bytes that are not UTF-8", pos);
  }
  reader.pos = stop;
  return text;
}

export function tooLongString(
  reader: Reader,
  length: number,
  { maxStringBytes }: ReadOptions,
): Error {
  return reader.beyond(
    `a string of at most ${maxStringBytes} bytes (limit: maxStringBytes)`,
    `${length}`,
  );
}
