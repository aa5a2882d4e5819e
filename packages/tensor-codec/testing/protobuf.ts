// SPDX-License-Identifier: Apache-2.0
/** A simple protobuf encoder, with which tests can write unusual messages. */

export type Bytes = readonly number[];

/** Encodes a varint with the given number of superfluous bytes. */
export function varint(value: bigint | number, padding = 0): number[] {
  let rest = BigInt.asUintN(64, BigInt(value));
  const bytes: number[] = [];
  do {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  } while (rest !== 0n);
  for (let i = 0; i < padding && bytes.length < 10; i++) {
    bytes.push(0x80);
  }
  bytes.push((bytes.pop() as number) & 0x7f);
  return bytes;
}

export const tag = (field: number, wireType: number): number[] => varint((field << 3) | wireType);

export const varintField = (field: number, value: bigint | number): number[] => [
  ...tag(field, 0),
  ...varint(value),
];

export const delimited = (field: number, content: Bytes): number[] => [
  ...tag(field, 2),
  ...varint(content.length),
  ...content,
];

export const group = (field: number, content: Bytes): number[] => [
  ...tag(field, 3),
  ...content,
  ...tag(field, 4),
];

/** Returns the bytes of elements in little-endian order. */
export function memory(data: ArrayBufferView): number[] {
  return [...new Uint8Array(data.buffer, data.byteOffset, data.byteLength)];
}
