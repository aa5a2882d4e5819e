// SPDX-License-Identifier: Apache-2.0
import type { Tensor } from "@dm-env-rpc/tensor-codec";
import { assemble, layOut } from "./png-file.ts";

/**
 * Encodes a picture as a PNG file with the platform's CompressionStream: the version of `encodePngBeside` for pages.
 *
 * The tensor's memory may be reused once this returns.
 *
 * @throws TensorError `dtype` or `shape` if the tensor is not a picture, synchronously.
 */
export function encodePngBeside(picture: Tensor): Promise<Uint8Array<ArrayBuffer>> {
  const { header, rows } = layOut(picture);
  const compressed = new Blob([rows]).stream().pipeThrough(new CompressionStream("deflate"));
  return new Response(compressed)
    .arrayBuffer()
    .then((pixels) => assemble(header, new Uint8Array(pixels), crc32));
}

/** The CRC-32 table: the remainder of each byte. */
const remainders: Uint32Array = /* @__PURE__ */ Uint32Array.from({ length: 256 }, (_, byte) => {
  let remainder = byte;
  for (let bit = 0; bit < 8; bit++) {
    remainder = remainder & 1 ? 0xedb88320 ^ (remainder >>> 1) : remainder >>> 1;
  }
  return remainder;
});

function crc32(bytes: Uint8Array): number {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum = (remainders[(sum ^ byte) & 0xff] ?? 0) ^ (sum >>> 8);
  }
  return ~sum >>> 0;
}
