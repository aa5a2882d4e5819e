// SPDX-License-Identifier: Apache-2.0
import {
  type IntegerArray,
  readVarints,
  varintsSize,
  writeVarints,
} from "../primitives/varints.ts";
import { varintType } from "../primitives/wire-type.ts";
import type { PackedEncoding } from "./encoding.ts";
import { checkVarints, countElements, tooLong, varintsWork } from "./packed-varints.ts";

const encoding: PackedEncoding<IntegerArray> = {
  packed: true,
  alone: varintType,
  width: 0,
  size: varintsSize,
  write: writeVarints,
  check: checkVarints,
  checkLength: () => {},
  workOf: varintsWork,
  read: (reader, options, allocate) => {
    const { source, pos, end } = reader;
    const out = allocate(countElements(reader, options));
    const count = out.length;
    if (count === end - pos) {
      for (let i = 0; i < count; i++) {
        out[i] = source[pos + i] as number;
      }
    } else if (!readVarints(source, pos, out)) {
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
    data[0] = byte;
    return true;
  },
};

/** `repeated int32` and `repeated uint32`: varints, truncated to the 32 bits of an element. */
export function varints32<A extends IntegerArray>(): PackedEncoding<A> {
  // The cast is safe: `allocate` determines the type of the array.
  return encoding as PackedEncoding<A>;
}
