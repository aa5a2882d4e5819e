// SPDX-License-Identifier: Apache-2.0
import { tooManyElements } from "../../errors/limits.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import type { Reader } from "../primitives/reader.ts";
import type { PackedEncoding } from "./encoding.ts";

/** Up to this many elements, a loop is faster than a call that copies all of them. */
const maxLoopedElements = 4;

// Duplicated on purpose: shared code would turn the constants of each into variables.

/** `bytes`: one byte per element. */
export const unsignedBytes: PackedEncoding<Uint8Array> = {
  packed: true,
  alone: undefined,
  width: 1,
  size: (data) => data.length,
  write: (data, _size, target, pos) => writeBytes(data, target, pos),
  check: () => {},
  checkLength,
  workOf: () => 0,
  read: (reader, options) => {
    return readBytes(reader, options);
  },
  readOne: (source, pos, size, data) => {
    if (size !== 1) {
      return false;
    }
    data[0] = source[pos] as number;
    return true;
  },
};

/** `bytes`: one byte per element, two's complement. */
export const signedBytes: PackedEncoding<Int8Array> = {
  packed: true,
  alone: undefined,
  width: 1,
  size: (data) => data.length,
  write: (data, _size, target, pos) => writeBytes(data, target, pos),
  check: () => {},
  checkLength,
  workOf: () => 0,
  read: (reader, options) => {
    const { source, pos, end } = reader;
    if (end - pos === 1 && options.maxElements > 0) {
      // A view of one byte costs twice as much, and keeps the whole message in memory.
      const out = new Int8Array(1);
      out[0] = source[pos] as number;
      return out;
    }
    const { buffer, byteOffset, length } = readBytes(reader, options);
    return new Int8Array(buffer, byteOffset, length);
  },
  readOne: (source, pos, size, data) => {
    if (size !== 1) {
      return false;
    }
    data[0] = source[pos] as number;
    return true;
  },
};

/** Writes bytes as they are; returns the position after them. */
export function writeBytes(data: Int8Array | Uint8Array, target: Uint8Array, pos: number): number {
  if (data.length > maxLoopedElements) {
    target.set(data, pos);
  } else {
    for (let i = 0; i < data.length; i++) {
      target[pos + i] = data[i] as number;
    }
  }
  return pos + data.length;
}

/** Reads the bytes from the reader's position to its end, one per element. */
export function readBytes(reader: Reader, options: ReadOptions): Uint8Array {
  const { pos, end } = reader;
  checkLength(reader, pos, end, options);
  return viewBytes(reader, pos, end, options.copy);
}

function checkLength(
  _reader: Reader,
  start: number,
  end: number,
  { maxElements }: ReadOptions,
): void {
  if (end - start > maxElements) {
    throw tooManyElements(end - start, maxElements);
  }
}

/** Returns bytes of the reader's source as a Uint8Array, even if the source is a Buffer. */
export function viewBytes(reader: Reader, start: number, end: number, copy: boolean): Uint8Array {
  const { buffer } = reader;
  const { byteOffset } = reader.source;
  return copy
    ? new Uint8Array(buffer.slice(byteOffset + start, byteOffset + end))
    : new Uint8Array(buffer, byteOffset + start, end - start);
}
