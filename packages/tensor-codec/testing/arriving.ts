// SPDX-License-Identifier: Apache-2.0
import type { Malformed, MessageCodec } from "../src/wire/messages.ts";

/** The refusal of a message while it arrived, and the number of bytes that had arrived. */
export interface EarlyRefusal {
  readonly refusal: Malformed | undefined;
  readonly arrived: number;
}

/** Passes a message to the codec in chunks of the given size; each has memory of its own, which is overwritten later. */
export function arriveIn(
  chunkBytes: number,
  codec: MessageCodec<unknown>,
  bytes: Uint8Array,
): EarlyRefusal {
  const arriving = codec.arriving?.(bytes.length);
  if (arriving === undefined) {
    throw new Error("the codec only reads whole messages");
  }
  const offset = 3;
  const memory = new Uint8Array(offset + chunkBytes);
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    const chunk = bytes.subarray(at, at + chunkBytes);
    memory.fill(0xff);
    memory.set(chunk, offset);
    const refusal = arriving.add(memory, offset, offset + chunk.length);
    if (refusal !== undefined) {
      return { refusal, arrived: at + chunk.length };
    }
  }
  return { refusal: undefined, arrived: bytes.length };
}

/** Returns the refusal of a message while it arrives, which must not depend on the message's chunks. */
export function earlyRefusalOf(
  codec: MessageCodec<unknown>,
  bytes: Uint8Array,
): Malformed | undefined {
  const { refusal } = arriveIn(Math.max(1, bytes.length), codec, bytes);
  for (const chunkBytes of [1, 2, 7, 16, 17, 33, 300]) {
    const cut = arriveIn(chunkBytes, codec, bytes).refusal;
    if (cut?.value.message !== refusal?.value.message) {
      throw new Error(
        `chunks of ${chunkBytes} bytes: expected ${refusal?.value.message}, received ${cut?.value.message}`,
      );
    }
  }
  return refusal;
}
