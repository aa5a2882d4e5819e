// SPDX-License-Identifier: Apache-2.0

/** Of larger sources the memory would be kept for nothing. */
const MAX_KEPT = 64 * 1024;

let lastSource: Uint8Array | undefined;
let lastBuffer: ArrayBufferLike | undefined;

/** The buffer of a source: asking a typed array for it is slow, and the messages of one chunk share it. */
export function bufferOf(source: Uint8Array): ArrayBufferLike {
  if (source === lastSource) return lastBuffer as ArrayBufferLike;
  const { buffer } = source;
  if (source.length <= MAX_KEPT) {
    lastSource = source;
    lastBuffer = buffer;
  }
  return buffer;
}
