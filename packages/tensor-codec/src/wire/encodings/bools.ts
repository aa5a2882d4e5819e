// SPDX-License-Identifier: Apache-2.0
import { varintType } from "../primitives/wire-type.ts";
import { readBytes, writeBytes } from "./bytes.ts";
import type { PackedEncoding } from "./encoding.ts";
import { checkVarints, countElements } from "./packed-varints.ts";

/** `repeated bool`: varints, written as 0 or 1; any varint other than 0 is read as 1. */
export const bools: PackedEncoding<Uint8Array> = {
  packed: true,
  alone: varintType,
  width: 1,
  size: (data) => data.length,
  write: (data, _size, target, pos) => {
    let odd = 0;
    for (let i = 0; i < data.length; i++) {
      odd |= data[i] as number;
    }
    if (odd <= 1) {
      return writeBytes(data, target, pos);
    }
    for (let i = 0; i < data.length; i++) {
      target[pos + i] = data[i] === 0 ? 0 : 1;
    }
    return pos + data.length;
  },
  check: checkVarints,
  // Only the values tell how many bytes an element has, and whether reading it costs work.
  checkLength: () => {},
  workOf: () => 0,
  read: (reader, options) => {
    const { source, pos: start, end } = reader;
    let odd = 0;
    for (let i = start; i < end; i++) {
      odd |= source[i] as number;
    }
    if (odd <= 1) {
      return readBytes(reader, options);
    }
    const out = new Uint8Array(countElements(reader, options));
    for (let i = 0; i < out.length; i++) {
      reader.varint64();
      out[i] = reader.low !== 0 || reader.high !== 0 ? 1 : 0;
    }
    return out;
  },
  readOne: (source, pos, size, data) => {
    const byte = source[pos] as number;
    if (size !== 1 || byte > 1) {
      return false;
    }
    data[0] = byte;
    return true;
  },
};
