// SPDX-License-Identifier: Apache-2.0
import { tooManyEntries } from "../../errors/limits.ts";
import type { PackedTensor, UnsetTensor } from "../../tensors/tensor.ts";
import type { Ranges } from "../primitives/ranges.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import type { Reader } from "../primitives/reader.ts";
import type { Uid } from "../primitives/uid.ts";
import { LENGTH_DELIMITED, VARINT } from "../primitives/wire-type.ts";
import { EMPTY_TENSOR, readMergedTensor, readTensor } from "../tensors/tensor-reader.ts";
import type { UidTensor } from "./step.ts";

const KEY = (1 << 3) | VARINT;
const VALUE = (2 << 3) | LENGTH_DELIMITED;

/** Up to this many entries looking at each is cheaper than keeping a Map of them. */
const FEW = 16;

/** The entries of a `map<uint64, Tensor>` as they come: of a key that comes twice the last stays. */
export class UidTensors {
  readonly entries: UidTensor[] = [];
  private places: Map<Uid, number> | undefined;

  /** Reads one entry, up to the reader's end. */
  read(reader: Reader, options: ReadOptions): void {
    const { end } = reader;
    let uid: Uid = 0;
    let tensor: PackedTensor | UnsetTensor | undefined;
    let parts: Ranges | undefined;
    let start = -1;
    let firstStop = -1;
    while (reader.pos < end) {
      const tag = reader.tag();
      if (tag === KEY) uid = readUid(reader);
      else if (tag === VALUE) {
        const stop = reader.delimited();
        if (start < 0) {
          start = reader.pos;
          firstStop = stop;
          reader.end = stop;
          // Nearly every entry ends here; a tensor in parts is read again as a whole.
          tensor = readTensor(reader, options);
          reader.end = end;
        } else {
          parts ??= [start, firstStop];
          parts.push(reader.pos, stop);
        }
        reader.pos = stop;
      } else reader.skip(tag);
    }
    if (parts !== undefined) tensor = readMergedTensor(reader, parts, options);
    if (parts !== undefined || tensor === undefined) reader.notes.regular = false;
    const replaced = this.put({ uid, tensor: tensor ?? EMPTY_TENSOR }, options.maxEntries);
    if (replaced) reader.notes.regular = false;
  }

  /** Returns whether the entry took the place of another one. */
  private put(entry: UidTensor, maxEntries: number): boolean {
    const { entries } = this;
    let place = -1;
    if (entries.length < FEW) {
      for (let i = 0; i < entries.length && place < 0; i++) {
        if ((entries[i] as UidTensor).uid === entry.uid) place = i;
      }
    } else {
      this.places ??= new Map(entries.map(({ uid }, index) => [uid, index]));
      place = this.places.get(entry.uid) ?? -1;
      if (place < 0) this.places.set(entry.uid, entries.length);
    }
    if (place >= 0) entries[place] = entry;
    else if (entries.length < maxEntries) entries.push(entry);
    else throw tooManyEntries(maxEntries);
    return place >= 0;
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
