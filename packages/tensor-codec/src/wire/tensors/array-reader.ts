// SPDX-License-Identifier: Apache-2.0
import type { TensorData } from "../../dtypes/dtype.ts";
import type { PackedEncoding } from "../encodings/encoding.ts";
import type { EncodedType } from "../encodings/table.ts";
import { concatenate, type Ranges } from "../primitives/ranges.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import type { Reader } from "../primitives/reader.ts";
import { arrayField, arrayTag } from "../primitives/wire-type.ts";

/**
 * Reads a `Tensor.*Array` from the reader's position to its end.
 *
 * Nearly every array is one packed field that fills the message. Any other array, in several chunks or
 * unpacked, is first merged into one: an unpacked element has the same bytes as a packed chunk with one
 * element.
 */
export function readArray(reader: Reader, type: EncodedType, options: ReadOptions): TensorData {
  const { encoding, allocate } = type;
  if (!encoding.packed) {
    return encoding.read(reader, options);
  }
  const { pos, end, source } = reader;
  if (pos === end) {
    return allocate(0);
  }
  if (source[pos] === arrayTag) {
    reader.pos = pos + 1;
    if (reader.delimited() === end) {
      return encoding.read(reader, options, allocate);
    }
    reader.pos = pos;
  }
  const ranges = chunksOf(reader, encoding);
  if (encoding.alone === undefined) {
    for (let i = 0; i < ranges.length; i += 2) {
      encoding.checkLength(reader, ranges[i] as number, ranges[i + 1] as number, options);
    }
    ranges.splice(0, ranges.length - 2); // bytes: the last wins
  }
  const [only, onlyEnd] = ranges;
  if (only !== undefined && onlyEnd !== undefined && ranges.length === 2) {
    return reader.within(source, only, onlyEnd, () => encoding.read(reader, options, allocate));
  }
  const whole = concatenate(source, ranges);
  return reader.within(whole, 0, whole.length, () =>
    encoding.read(reader, { ...options, copy: false }, allocate),
  );
}

/** Returns the ranges of the array's fields, each ending at the end of an element. */
function chunksOf(reader: Reader, encoding: PackedEncoding<TensorData>): Ranges {
  const alone = encoding.alone === undefined ? undefined : (arrayField << 3) | encoding.alone;
  const ranges: number[] = [];
  while (reader.pos < reader.end) {
    const tag = reader.tag();
    reader.spend(1);
    if (tag === arrayTag) {
      const stop = reader.delimited();
      encoding.check(reader, reader.pos, stop);
      ranges.push(reader.pos, stop);
      reader.pos = stop;
    } else {
      const start = reader.pos;
      if (tag === alone) {
        reader.pass(tag);
        ranges.push(start, reader.pos);
      } else {
        reader.skip(tag);
      }
    }
  }
  return ranges;
}
