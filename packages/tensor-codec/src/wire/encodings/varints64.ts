// SPDX-License-Identifier: Apache-2.0
import { bits, highHalf, lowHalf } from "../primitives/bits.ts";
import { readHalves, varints64Size, writeVarints64 } from "../primitives/varints.ts";
import { varintType } from "../primitives/wire-type.ts";
import type { PackedEncoding } from "./encoding.ts";
import { checkVarints, countElements, tooLong, varintsWork } from "./packed-varints.ts";

const encoding: PackedEncoding<BigInt64Array | BigUint64Array> = {
  packed: true,
  alone: varintType,
  width: 0,
  size: varints64Size,
  write: (data, _size, target, pos) => writeVarints64(data, target, pos),
  check: checkVarints,
  checkLength: () => {},
  workOf: varintsWork,
  read: (reader, options, allocate) => {
    const out = allocate(countElements(reader, options));
    if (out.length === 1) {
      reader.varint64();
      bits.int32[lowHalf] = reader.low;
      bits.int32[highHalf] = reader.high;
      // An unsigned element takes the same bits.
      out[0] = bits.int64[0] as bigint;
      return out;
    }
    if (!readHalves(reader.source, reader.pos, new Int32Array(out.buffer))) {
      throw tooLong(reader);
    }
    return out;
  },
  readOne: (source, pos, size, data) => {
    const byte = source[pos] as number;
    // A longer varint continues with more bytes.
    if (size !== 1 || byte > 0x7f) {
      return false;
    }
    data[0] = BigInt(byte);
    return true;
  },
};

/** `repeated int64` and `repeated uint64`: varints. */
export function varints64<A extends BigInt64Array | BigUint64Array>(): PackedEncoding<A> {
  // The cast is safe: `allocate` determines the type of the array.
  return encoding as PackedEncoding<A>;
}
