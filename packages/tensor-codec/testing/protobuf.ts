// SPDX-License-Identifier: Apache-2.0
/** Protobuf written the slow way, so that tests can write what no encoder would. */

export type Bytes = readonly number[];

/** A varint, with so many bytes more than it needs. */
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

/** The bytes of elements as they are in memory, low byte first. */
export function memory(data: ArrayBufferView): number[] {
  return [...new Uint8Array(data.buffer, data.byteOffset, data.byteLength)];
}
