// SPDX-License-Identifier: Apache-2.0

/** Up to this length a loop is faster than a call of the platform's encoder. */
const SHORT = 24;

// What every platform has but no TypeScript library without the DOM or Node declares.
declare const TextEncoder: new () => {
  encodeInto(text: string, target: Uint8Array): unknown;
};
declare const TextDecoder: new (
  encoding: "utf-8",
  options: { readonly fatal: boolean; readonly ignoreBOM: boolean },
) => { decode(bytes: Uint8Array): string };

const encoder = new TextEncoder();
// A leading U+FEFF in a protobuf string is text, not a byte-order mark.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The bytes of a string in UTF-8, -1 when it has a lone surrogate and so no encoding. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) continue;
    if (unit < 0x800) bytes += 1;
    else if (unit < 0xd800 || unit > 0xdfff) bytes += 2;
    else {
      const next = i + 1 < text.length ? text.charCodeAt(i + 1) : 0;
      if (unit > 0xdbff || next < 0xdc00 || next > 0xdfff) return -1;
      bytes += 2; // two units, four bytes
      i++;
    }
  }
  return bytes;
}

/** Writes a string of `length` UTF-8 bytes at `pos`; returns the position behind it. */
export function writeUtf8(text: string, length: number, target: Uint8Array, pos: number): number {
  if (length === text.length && length <= SHORT) {
    for (let i = 0; i < length; i++) target[pos + i] = text.charCodeAt(i);
  } else encoder.encodeInto(text, target.subarray(pos, pos + length));
  return pos + length;
}

/** Reads UTF-8; undefined when it is not well-formed. */
export function readUtf8(source: Uint8Array, start: number, end: number): string | undefined {
  if (end - start <= SHORT) {
    let text = "";
    let pos = start;
    for (; pos < end; pos++) {
      const byte = source[pos] as number;
      if (byte > 0x7f) break;
      text += String.fromCharCode(byte);
    }
    if (pos === end) return text;
  }
  try {
    return decoder.decode(source.subarray(start, end));
  } catch {
    return undefined;
  }
}
