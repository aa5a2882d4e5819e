// SPDX-License-Identifier: Apache-2.0

/** Up to this length, a loop is faster than a call of the platform's encoder. */
const maxLoopedLength = 32;

// Every platform has these, but only the DOM's and Node's type libraries declare them.
declare class TextEncoder {
  encodeInto(text: string, target: Uint8Array): unknown;
}
declare class TextDecoder {
  constructor(encoding: "utf-8", options: { readonly fatal: boolean; readonly ignoreBOM: boolean });
  decode(bytes: Uint8Array): string;
}

const encoder = new TextEncoder();
// A leading U+FEFF in a protobuf string is text, not a byte-order mark.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Returns the size of a string in UTF-8; -1 if it has a lone surrogate and so no encoding. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) {
      continue;
    }
    if (unit < 0x800) {
      bytes += 1;
    } else if (unit < 0xd800 || unit > 0xdfff) {
      bytes += 2;
    } else {
      const next = i + 1 < text.length ? text.charCodeAt(i + 1) : 0;
      if (unit > 0xdbff || next < 0xdc00 || next > 0xdfff) {
        return -1;
      }
      bytes += 2; // two units, four bytes
      i++;
    }
  }
  return bytes;
}

/** Writes a string of `length` UTF-8 bytes at `pos`; returns the position after it. */
export function writeUtf8(text: string, length: number, target: Uint8Array, pos: number): number {
  if (length === text.length && length <= maxLoopedLength) {
    for (let i = 0; i < length; i++) {
      target[pos + i] = text.charCodeAt(i);
    }
  } else {
    encoder.encodeInto(text, target.subarray(pos, pos + length));
  }
  return pos + length;
}

/** Reads UTF-8; undefined if it is not well-formed. */
export function readUtf8(source: Uint8Array, start: number, end: number): string | undefined {
  if (end - start <= maxLoopedLength && isAscii(source, start, end)) {
    return readAscii(source, start, end);
  }
  try {
    return decoder.decode(source.subarray(start, end));
  } catch {
    return undefined;
  }
}

function isAscii(source: Uint8Array, start: number, end: number): boolean {
  let odd = 0;
  for (let i = start; i < end; i++) {
    odd |= source[i] as number;
  }
  return odd < 0x80;
}

/** Joins pieces of eight characters, at half the cost of single characters. */
function readAscii(source: Uint8Array, start: number, end: number): string {
  let text = "";
  let pos = start;
  for (; pos + 8 <= end; pos += 8) {
    text += String.fromCharCode(
      source[pos] as number,
      source[pos + 1] as number,
      source[pos + 2] as number,
      source[pos + 3] as number,
      source[pos + 4] as number,
      source[pos + 5] as number,
      source[pos + 6] as number,
      source[pos + 7] as number,
    );
  }
  for (; pos < end; pos++) {
    text += String.fromCharCode(source[pos] as number);
  }
  return text;
}
