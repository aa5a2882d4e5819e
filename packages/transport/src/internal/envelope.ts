// SPDX-License-Identifier: Apache-2.0

/** Bytes in front of a message: its flags, and its length in four bytes. */
export const prefixBytes = 5;

/** A message with its flags and its length in front, as gRPC, gRPC-Web and Connect have it. */
export function envelope(message: Uint8Array, flags = 0): Uint8Array {
  const bytes = new Uint8Array(prefixBytes + message.length);
  bytes[0] = flags;
  new DataView(bytes.buffer).setUint32(1, message.length);
  bytes.set(message, prefixBytes);
  return bytes;
}
