// SPDX-License-Identifier: Apache-2.0

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
  const key0 = keys[key] ?? 0;
  const key1 = keys[key + 1] ?? 0;
  const key2 = keys[key + 2] ?? 0;
  const key3 = keys[key + 3] ?? 0;
  let at = start;
  for (const last = end - 3; at < last; at += 4) {
    bytes[at] = (bytes[at] ?? 0) ^ key0;
    bytes[at + 1] = (bytes[at + 1] ?? 0) ^ key1;
    bytes[at + 2] = (bytes[at + 2] ?? 0) ^ key2;
    bytes[at + 3] = (bytes[at + 3] ?? 0) ^ key3;
  }
  for (let i = 0; at < end; i++, at++) {
    bytes[at] = (bytes[at] ?? 0) ^ (keys[key + i] ?? 0);
  }
}
