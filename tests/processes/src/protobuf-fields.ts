// SPDX-License-Identifier: Apache-2.0

/** Encodes a varint of at most 32 bits. */
export function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value >>> 0;
  for (; rest > 0x7f; rest >>>= 7) {
    bytes.push((rest & 0x7f) | 0x80);
  }
  return Buffer.from([...bytes, rest]);
}

/** Encodes a length-delimited protobuf field. */
export function field(number: number, ...parts: readonly Uint8Array[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  return Buffer.concat([varint((number << 3) | 2), varint(length), ...parts]);
}

/** Encodes a protobuf field of an integer. */
export function integerField(number: number, value: number): Buffer {
  return Buffer.concat([varint(number << 3), varint(value)]);
}

/** Makes the frame and the first `bytes` bytes of a gRPC message of about `size` bytes, which is within all limits. */
export function incompleteFrame(size: number, bytes: number): Buffer {
  return grpcFrame(field(20, Buffer.alloc(size))).subarray(0, 5 + bytes);
}

/** Frames bytes as a gRPC message. */
export function grpcFrame(body: Uint8Array, flags = 0): Buffer {
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}
