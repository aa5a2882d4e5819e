// SPDX-License-Identifier: Apache-2.0
import { tooManyEntries } from "../../errors/limits.ts";
import type { PackedTensor, UnsetTensor } from "../../tensors/tensor.ts";
import type { Ranges } from "../primitives/ranges.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import { objectWork, type Reader } from "../primitives/reader.ts";
import type { Uid } from "../primitives/uid.ts";
import { lengthDelimitedType, varintType } from "../primitives/wire-type.ts";
import {
  emptyTensor,
  readMergedTensor,
  readTensor,
  spendBroadcast,
} from "../tensors/tensor-reader.ts";
import type { UidTensor } from "./step.ts";

const keyTag = (1 << 3) | varintType;
const valueTag = (2 << 3) | lengthDelimitedType;

/**
 * The entries of a `map<uint64, Tensor>`, in the order in which their keys first occur. For a repeated key, the last
 * entry counts.
 */
export class UidTensors {
  readonly #byUid = new Map<Uid, UidTensor>();
  /** Number of entries read, including entries that replaced an earlier one. */
  #read = 0;

  get entries(): UidTensor[] {
    return [...this.#byUid.values()];
  }

  /** Reads one entry, up to the reader's end. */
  read(reader: Reader, options: ReadOptions): void {
    if (this.#read === options.maxEntries) {
      throw tooManyEntries(options.maxEntries);
    }
    this.#read += 1;
    reader.spend(objectWork);
    const { end } = reader;
    let uid: Uid = 0;
    let tensor: PackedTensor | UnsetTensor | undefined;
    let parts: Ranges | undefined;
    let start = -1;
    let firstStop = -1;
    while (reader.pos < end) {
      const tag = reader.tag();
      if (tag === keyTag) {
        reader.spend(1);
        uid = readUid(reader);
      } else if (tag === valueTag) {
        const stop = reader.delimited();
        reader.spend(objectWork);
        if (start < 0) {
          start = reader.pos;
          firstStop = stop;
          reader.end = stop;
          // Nearly every entry ends here. A tensor in several parts is read again from its merged bytes.
          tensor = readTensor(reader, options);
          reader.end = end;
        } else {
          parts ??= [start, firstStop];
          parts.push(reader.pos, stop);
        }
        reader.pos = stop;
      } else {
        reader.skip(tag);
      }
    }
    if (parts !== undefined) {
      tensor = readMergedTensor(reader, parts, options);
    }
    if (parts !== undefined || tensor === undefined) {
      reader.notes.regular = false;
    }
    tensor ??= emptyTensor;
    spendBroadcast(reader, tensor, options);
    if (this.#byUid.has(uid)) {
      reader.notes.regular = false;
    }
    this.#byUid.set(uid, { uid, tensor });
  }
}

/** Reads an unsigned 64-bit varint: a number up to 2^53 - 1, a bigint beyond. */
export function readUid(reader: Reader): Uid {
  const at = reader.pos;
  const byte = at < reader.end ? (reader.source[at] as number) : 0x80;
  if (byte < 0x80) {
    reader.pos = at + 1;
    return byte;
  }
  reader.varint64();
  const high = reader.high >>> 0;
  const low = reader.low >>> 0;
  return high < 0x200000 ? high * 4294967296 + low : (BigInt(high) << 32n) | BigInt(low);
}
