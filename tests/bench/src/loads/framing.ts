// SPDX-License-Identifier: Apache-2.0

/** A message with the five bytes that gRPC puts in front. */
export function frame(message: Uint8Array): Buffer {
  const framed = Buffer.alloc(5 + message.length);
  framed.writeUInt32BE(message.length, 1);
  framed.set(message, 5);
  return framed;
}
