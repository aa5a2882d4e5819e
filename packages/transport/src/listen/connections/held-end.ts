// SPDX-License-Identifier: Apache-2.0
import type { Readable } from "node:stream";

/**
 * Holds back the end of a stream that waits for its turn. node:http2 makes a stream that has no buffered bytes emit
 * "end" as soon as it is pushed, even before a listener is attached.
 *
 * @returns A function that delivers the end, now or once it arrives. Call it after the listeners are attached.
 */
export function holdEnd(stream: Pick<Readable, "push" | "read">): () => void {
  const push = stream.push.bind(stream);
  let isHeld = true;
  let hasEnded = false;
  stream.push = (chunk: Buffer | null): boolean => {
    if (chunk === null && isHeld) {
      hasEnded = true;
      return false;
    }
    return push(chunk);
  };
  return () => {
    isHeld = false;
    if (hasEnded) {
      stream.push(null); // Others may hold the end, too.
      stream.read(0); // Emits "end" even without a reader, as node:http2 does.
    }
  };
}
