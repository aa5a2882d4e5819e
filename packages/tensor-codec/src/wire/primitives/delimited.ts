// SPDX-License-Identifier: Apache-2.0
import { varintSize, writeVarint } from "./varints.ts";

/** Writes the tag and the length of a field; returns the position after them. */
export function begin(tag: number, length: number, target: Uint8Array, pos: number): number {
  target[pos] = tag;
  return writeVarint(length, target, pos + 1);
}

/** Returns the size of a field of `length` bytes with its one-byte tag and its length. */
export function delimitedSize(length: number): number {
  return 1 + varintSize(length) + length;
}
