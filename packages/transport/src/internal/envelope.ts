// SPDX-License-Identifier: Apache-2.0

/** Bytes before a message: one byte of flags and four bytes of length. */
export const prefixBytes = 5;

/** Prefixes a message with its flags and length, as gRPC, gRPC-Web and Connect do. */
export function envelope(message: Uint8Array, flags = 0): Uint8Array {
  const bytes = new Uint8Array(prefixBytes + message.length);
  bytes[0] = flags;
  new DataView(bytes.buffer).setUint32(1, message.length);
  bytes.set(message, prefixBytes);
  return bytes;
}
