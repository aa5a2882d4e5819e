// SPDX-License-Identifier: Apache-2.0

/** From this length, bytes are masked as words of 32 bits, which takes a quarter of the time. */
const leastBytes = 128;

/**
 * Masks or unmasks the bytes from `start` to `end` with the 4 bytes at `key` of `keys` (RFC 6455,
 * section 5.3).
 */
export function mask(
  bytes: Uint8Array,
  start: number,
  end: number,
  keys: Uint8Array,
  key: number,
): void {
  let at = end - start < leastBytes ? start : maskWords(bytes, start, end, keys, key);
  const key0 = keys[key] ?? 0;
  const key1 = keys[key + 1] ?? 0;
  const key2 = keys[key + 2] ?? 0;
  const key3 = keys[key + 3] ?? 0;
  for (const last = end - 3; at < last; at += 4) {
    bytes[at] = (bytes[at] ?? 0) ^ key0;
    bytes[at + 1] = (bytes[at + 1] ?? 0) ^ key1;
    bytes[at + 2] = (bytes[at + 2] ?? 0) ^ key2;
    bytes[at + 3] = (bytes[at + 3] ?? 0) ^ key3;
  }
  maskBytes(bytes, start, at, end, keys, key);
}

/** Masks all bytes except at most 3 at the end. Returns the position of the first byte that is left. */
function maskWords(
  bytes: Uint8Array,
  start: number,
  end: number,
  keys: Uint8Array,
  key: number,
): number {
  const aligned = start + (-(bytes.byteOffset + start) & 3);
  maskBytes(bytes, start, start, aligned, keys, key);
  const rotated = new Uint8Array(4);
  for (let i = 0; i < 4; i++) {
    rotated[i] = keys[key + ((aligned - start + i) & 3)] ?? 0;
  }
  const [word = 0] = new Int32Array(rotated.buffer);
  const words = new Int32Array(bytes.buffer, bytes.byteOffset + aligned, (end - aligned) >> 2);
  for (let i = 0; i < words.length; i++) {
    words[i] = (words[i] as number) ^ word;
  }
  return aligned + 4 * words.length;
}

/** Masks the bytes from `from` to `to` one by one; the mask begins at `start`. */
function maskBytes(
  bytes: Uint8Array,
  start: number,
  from: number,
  to: number,
  keys: Uint8Array,
  key: number,
): void {
  for (let at = from; at < to; at++) {
    bytes[at] = (bytes[at] ?? 0) ^ (keys[key + ((at - start) & 3)] ?? 0);
  }
}
