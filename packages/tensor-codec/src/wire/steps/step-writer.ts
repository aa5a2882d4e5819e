// SPDX-License-Identifier: Apache-2.0

import { begin, delimitedSize } from "../primitives/delimited.ts";
import type { Sizes } from "../primitives/sizes.ts";
import type { Uid } from "../primitives/uid.ts";
import { halvesSize, writeHalves, writeVarint } from "../primitives/varints.ts";
import { lengthDelimitedType, varintType } from "../primitives/wire-type.ts";
import { tensorSize, writeTensor } from "../tensors/tensor-writer.ts";
import type { UidTensor } from "./step.ts";

const keyTag = (1 << 3) | varintType;
const valueTag = (2 << 3) | lengthDelimitedType;

/** Returns the size of a field of type `map<uint64, Tensor>` with tags of one byte. */
export function mapSize(entries: readonly UidTensor[], sizes: Sizes): number {
  let size = 0;
  for (let i = 0; i < entries.length; i++) {
    const { uid, tensor } = entries[i] as UidTensor;
    const place = sizes.reserve();
    size += delimitedSize(entrySize(uid, sizes.put(place, tensorSize(tensor, sizes))));
  }
  return size;
}

/** Writes a field of type `map<uint64, Tensor>`; returns the position after it. */
export function writeMap(
  entries: readonly UidTensor[],
  tag: number,
  sizes: Sizes,
  target: Uint8Array,
  pos: number,
): number {
  for (let i = 0; i < entries.length; i++) {
    const { uid, tensor } = entries[i] as UidTensor;
    const size = sizes.take();
    pos = begin(tag, entrySize(uid, size), target, pos);
    target[pos++] = keyTag;
    pos = writeUid(uid, target, pos);
    pos = writeTensor(tensor, sizes, target, begin(valueTag, size, target, pos));
  }
  return pos;
}

/** Returns the size of UIDs as packed varints. */
export function uidsSize(uids: readonly Uid[]): number {
  let size = 0;
  for (let i = 0; i < uids.length; i++) {
    size += uidSize(uids[i] as Uid);
  }
  return size;
}

/** Writes a UID as a varint; returns the position after it. */
export function writeUid(uid: Uid, target: Uint8Array, pos: number): number {
  return typeof uid === "number" && uid <= 0xffffffff
    ? writeVarint(uid, target, pos)
    : writeHalves(lowOf(uid), highOf(uid), target, pos);
}

function uidSize(uid: Uid): number {
  return typeof uid === "number" && uid < 0x80 ? 1 : halvesSize(lowOf(uid), highOf(uid));
}

const entrySize = (uid: Uid, tensorBytes: number): number =>
  1 + uidSize(uid) + delimitedSize(tensorBytes);

const lowOf = (uid: Uid): number =>
  typeof uid === "number" ? uid >>> 0 : Number(uid & 0xffffffffn);

const highOf = (uid: Uid): number =>
  typeof uid === "number" ? Math.floor(uid / 4294967296) : Number(uid >> 32n);
