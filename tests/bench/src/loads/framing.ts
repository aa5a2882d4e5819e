// SPDX-License-Identifier: Apache-2.0

/** Prefixes a message with gRPC's five bytes. */
export function frame(message: Uint8Array): Buffer {
  const framed = Buffer.alloc(5 + message.length);
  framed.writeUInt32BE(message.length, 1);
  framed.set(message, 5);
  return framed;
}
