// SPDX-License-Identifier: Apache-2.0
import type { Any } from "@bufbuild/protobuf/wkt";
import { type DType, dtypes, type TensorData } from "../dtype.ts";
import { tooManyElements, tooManyEntries } from "../limits.ts";
import { bits, highHalf, lowHalf } from "./bits.ts";
import { readFixed, readFloat32, readFloat64 } from "./fixed.ts";
import type { PackedNumbers } from "./packed-numbers.ts";
import { concatenate, type Ranges } from "./ranges.ts";
import type { Reader } from "./reader.ts";
import { readUtf8 } from "./utf8.ts";
import { countVarints, readHalves, readVarints } from "./varints.ts";
import { ARRAY_FIELD, FIXED32, FIXED64, LENGTH_DELIMITED, VARINT } from "./wire-type.ts";

/** What the readers of tensors keep to. */
export interface ReadOptions {
  readonly maxElements: number;
  readonly maxStringBytes: number;
  readonly maxEntries: number;
  /** Copies what would be a view of the source. */
  readonly copy: boolean;
}

/** Shared, as nobody can change it: a hostile array may have millions of empty Anys. */
const NO_BYTES = new Uint8Array(0);

const ONE_PACKED_FIELD = (ARRAY_FIELD << 3) | LENGTH_DELIMITED;

/**
 * Reads a `Tensor.*Array` from the reader's position to its end.
 *
 * Nearly every array is one packed field that fills the message. What is not, an
 * array in several chunks or unpacked, is first put together into one: the bytes of
 * an unpacked element are those of a packed chunk with one element in it.
 */
export function readArray(reader: Reader, dtype: DType, options: ReadOptions): TensorData {
  if (dtype === "string") return readStrings(reader, options);
  if (dtype === "proto") return readAnys(reader, options);
  const { pos, end, source } = reader;
  if (pos === end) return dtypes[dtype].allocate(0);
  if (source[pos] === ONE_PACKED_FIELD) {
    reader.pos = pos + 1;
    if (reader.delimited() === end) return readChunk(reader, dtype, options);
    reader.pos = pos;
  }
  const ranges = chunksOf(reader, dtype);
  if (dtype === "int8" || dtype === "uint8") ranges.splice(0, ranges.length - 2); // bytes: the last wins
  const [only, onlyEnd] = ranges;
  if (only !== undefined && onlyEnd !== undefined && ranges.length === 2) {
    return reader.within(source, only, onlyEnd, () => readChunk(reader, dtype, options));
  }
  const whole = concatenate(source, ranges);
  return reader.within(whole, 0, whole.length, () =>
    readChunk(reader, dtype, { ...options, copy: false }),
  );
}

/** The ranges of the array's fields, each of which ends where an element does. */
function chunksOf(reader: Reader, dtype: DType): Ranges {
  const width = dtype === "float32" ? 4 : dtype === "float64" ? 8 : 0;
  const bytes = dtype === "int8" || dtype === "uint8";
  const single = width === 4 ? FIXED32 : width === 8 ? FIXED64 : bytes ? -1 : VARINT;
  const ranges: number[] = [];
  while (reader.pos < reader.end) {
    const tag = reader.tag();
    if (tag === ONE_PACKED_FIELD) {
      const stop = reader.delimited();
      checkChunk(reader, reader.pos, stop, width, bytes);
      ranges.push(reader.pos, stop);
      reader.pos = stop;
    } else {
      const start = reader.pos;
      if (tag === ((ARRAY_FIELD << 3) | single)) {
        reader.pass(tag);
        ranges.push(start, reader.pos);
      } else reader.skip(tag);
    }
  }
  return ranges;
}

function checkChunk(
  reader: Reader,
  start: number,
  end: number,
  width: number,
  bytes: boolean,
): void {
  if (width > 0 && (end - start) % width !== 0) {
    throw reader.malformed(`a multiple of ${width} bytes`, `${end - start}`, start);
  }
  if (width === 0 && !bytes && end > start && (reader.source[end - 1] as number) > 0x7f) {
    throw reader.malformed("the end of a varint", "the end of its field", end - 1);
  }
}

/** The elements in one packed chunk, from the reader's position to its end. */
function readChunk(
  reader: Reader,
  dtype: PackedNumbers["dtype"],
  options: ReadOptions,
): TensorData {
  const { source, pos: start, end } = reader;
  switch (dtype) {
    case "float32":
      return readFloats32(reader, options);
    case "float64":
      return readFloats64(reader, options);
    case "int8":
      return readInt8s(reader, options);
    case "uint8":
      return readBytes(reader, end - start, options);
    case "bool":
      return readBools(reader, options);
    case "int32":
    case "uint32": {
      const count = countElements(reader, options);
      const out = dtype === "int32" ? new Int32Array(count) : new Uint32Array(count);
      if (count === end - start)
        for (let i = 0; i < count; i++) out[i] = source[start + i] as number;
      else if (!readVarints(source, start, out)) throw tooLong(reader);
      return out;
    }
    case "int64":
    case "uint64":
      return readIntegers64(reader, dtype, options);
  }
}

function readFloats32(reader: Reader, { maxElements, copy }: ReadOptions): Float32Array {
  const { source, pos, end } = reader;
  checkChunk(reader, pos, end, 4, false);
  const count = (end - pos) / 4;
  if (count > maxElements) throw tooManyElements(count, maxElements);
  if (count === 1) {
    const value = readFloat32(source, pos);
    if (value !== undefined) {
      const out = new Float32Array(1);
      out[0] = value;
      return out;
    }
  }
  return readFixed(Float32Array, source, pos, end - pos, copy);
}

function readFloats64(reader: Reader, { maxElements, copy }: ReadOptions): Float64Array {
  const { source, pos, end } = reader;
  checkChunk(reader, pos, end, 8, false);
  const count = (end - pos) / 8;
  if (count > maxElements) throw tooManyElements(count, maxElements);
  if (count === 1) {
    const value = readFloat64(source, pos);
    if (value !== undefined) {
      const out = new Float64Array(1);
      out[0] = value;
      return out;
    }
  }
  return readFixed(Float64Array, source, pos, end - pos, copy);
}

/** Bytes as they are: never a Buffer, whatever the source is. */
function readBytes(reader: Reader, length: number, options: ReadOptions): Uint8Array {
  if (length > options.maxElements) throw tooManyElements(length, options.maxElements);
  return viewBytes(reader.source, reader.pos, length, options.copy);
}

function readInt8s(reader: Reader, options: ReadOptions): Int8Array {
  const { source, pos, end } = reader;
  if (end - pos === 1 && options.maxElements > 0) {
    // A view of one byte costs twice as much, and keeps all that came with it.
    const out = new Int8Array(1);
    out[0] = source[pos] as number;
    return out;
  }
  const { buffer, byteOffset, length } = readBytes(reader, end - pos, options);
  return new Int8Array(buffer, byteOffset, length);
}

function viewBytes(source: Uint8Array, start: number, length: number, copy: boolean): Uint8Array {
  const at = source.byteOffset + start;
  return copy
    ? new Uint8Array(source.buffer.slice(at, at + length))
    : new Uint8Array(source.buffer, at, length);
}

function readBools(reader: Reader, options: ReadOptions): Uint8Array {
  const { source, pos: start, end } = reader;
  let odd = 0;
  for (let i = start; i < end; i++) odd |= source[i] as number;
  if (odd <= 1) return readBytes(reader, end - start, options);
  const out = new Uint8Array(countElements(reader, options));
  for (let i = 0; i < out.length; i++) {
    reader.varint64();
    out[i] = reader.low !== 0 || reader.high !== 0 ? 1 : 0;
  }
  return out;
}

function readIntegers64(
  reader: Reader,
  dtype: "int64" | "uint64",
  options: ReadOptions,
): BigInt64Array | BigUint64Array {
  const count = countElements(reader, options);
  if (count === 1) {
    reader.varint64();
    bits.int32[lowHalf] = reader.low;
    bits.int32[highHalf] = reader.high;
    const out = dtype === "int64" ? new BigInt64Array(1) : new BigUint64Array(1);
    out[0] = dtype === "int64" ? (bits.int64[0] as bigint) : (bits.uint64[0] as bigint);
    return out;
  }
  const halves = new Int32Array(count * 2);
  if (!readHalves(reader.source, reader.pos, halves)) throw tooLong(reader);
  return dtype === "int64" ? new BigInt64Array(halves.buffer) : new BigUint64Array(halves.buffer);
}

/** The number of varints from the reader's position to its end, within the limit. */
function countElements(reader: Reader, { maxElements }: ReadOptions): number {
  const { source, pos, end } = reader;
  checkChunk(reader, pos, end, 0, false);
  const count = countVarints(source, pos, end);
  if (count > maxElements) throw tooManyElements(count, maxElements);
  return count;
}

function tooLong(reader: Reader): Error {
  return reader.malformed("varints of at most ten bytes", "a longer one");
}

function readStrings(reader: Reader, options: ReadOptions): string[] {
  const out: string[] = [];
  while (nextElement(reader, out.length, options)) {
    const stop = reader.delimited();
    const { source, pos } = reader;
    if (stop - pos > options.maxStringBytes) throw tooLongString(reader, stop - pos, options);
    const text = readUtf8(source, pos, stop);
    if (text === undefined) throw reader.malformed("UTF-8", "bytes that are none", pos);
    out.push(text);
    reader.pos = stop;
  }
  return out;
}

function readAnys(reader: Reader, options: ReadOptions): Any[] {
  const out: Any[] = [];
  while (nextElement(reader, out.length, options)) {
    if (out.length === options.maxEntries) throw tooManyEntries(options.maxEntries);
    const stop = reader.delimited();
    out.push(reader.inner(stop, () => readAny(reader, options)));
  }
  return out;
}

/** Moves to the next field `array`, passing over unknown ones; false at the end. */
function nextElement(reader: Reader, count: number, { maxElements }: ReadOptions): boolean {
  while (reader.pos < reader.end) {
    const tag = reader.tag();
    if (tag === ONE_PACKED_FIELD) {
      if (count === maxElements) throw tooManyElements(count + 1, maxElements);
      return true;
    }
    reader.skip(tag);
  }
  return false;
}

function readAny(reader: Reader, options: ReadOptions): Any {
  let typeUrl = "";
  let value: Uint8Array | undefined;
  while (reader.pos < reader.end) {
    const tag = reader.tag();
    if (tag === ((1 << 3) | LENGTH_DELIMITED)) {
      const stop = reader.delimited();
      const { pos } = reader;
      if (stop - pos > options.maxStringBytes) throw tooLongString(reader, stop - pos, options);
      const text = readUtf8(reader.source, pos, stop);
      if (text === undefined) throw reader.malformed("UTF-8", "bytes that are none", pos);
      typeUrl = text;
      reader.pos = stop;
    } else if (tag === ((2 << 3) | LENGTH_DELIMITED)) {
      const stop = reader.delimited();
      value = viewBytes(reader.source, reader.pos, stop - reader.pos, options.copy);
      reader.pos = stop;
    } else reader.skip(tag);
  }
  return { $typeName: "google.protobuf.Any", typeUrl, value: value ?? NO_BYTES };
}

function tooLongString(reader: Reader, length: number, { maxStringBytes }: ReadOptions): Error {
  return reader.beyond(`a string of at most ${maxStringBytes} bytes (maxStringBytes)`, `${length}`);
}
