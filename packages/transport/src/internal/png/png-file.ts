// SPDX-License-Identifier: Apache-2.0
import { type Tensor, TensorError } from "@dm-env-rpc/tensor-codec";

const signature = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);

/** PNG's colour type by the number of channels: grey, grey and alpha, RGB, RGBA. */
const colourTypes = [undefined, 0, 4, 2, 6] as const;

/** The parts of a PNG file before compression. */
export interface PngLayout {
  /** Content of the IHDR chunk. */
  readonly header: Uint8Array;
  /** Pixels, with a filter byte before each row. */
  readonly rows: Uint8Array<ArrayBuffer>;
}

/**
 * Lays out a picture as PNG's header and rows.
 *
 * @throws TensorError `dtype` or `shape` if the tensor is not a picture.
 */
export function layOut(picture: Tensor): PngLayout {
  const [height = 0, width = 0, channels = 1] = picture.shape;
  const colourType = colourTypes[channels];
  if (picture.dtype !== "uint8") {
    throw noPicture("dtype", picture);
  }
  if (
    picture.shape.length < 2 ||
    picture.shape.length > 3 ||
    height * width === 0 ||
    colourType === undefined
  ) {
    throw noPicture("shape", picture);
  }
  const header = new Uint8Array(13);
  const view = new DataView(header.buffer);
  view.setUint32(0, width);
  view.setUint32(4, height);
  header.set([8, colourType, 0, 0, 0], 8);
  const rowBytes = width * channels;
  // Filter byte 0: the row is not filtered.
  const rows = new Uint8Array(height * (rowBytes + 1));
  for (let row = 0; row < height; row++) {
    const pixels = picture.data.subarray(row * rowBytes, (row + 1) * rowBytes);
    rows.set(pixels, row * (rowBytes + 1) + 1);
  }
  return { header, rows };
}

/**
 * Assembles a PNG file.
 *
 * @param pixels The rows, compressed by zlib.
 * @param crc32 Computes the CRC-32 of bytes, as an unsigned number.
 */
export function assemble(
  header: Uint8Array,
  pixels: Uint8Array,
  crc32: (bytes: Uint8Array) => number,
): Uint8Array<ArrayBuffer> {
  const chunks: readonly (readonly [type: string, data: Uint8Array])[] = [
    ["IHDR", header],
    ["IDAT", pixels],
    ["IEND", new Uint8Array(0)],
  ];
  const size = chunks.reduce((sum, [, data]) => sum + data.length + 12, signature.length);
  const file = new Uint8Array(size);
  const view = new DataView(file.buffer);
  file.set(signature);
  let at = signature.length;
  for (const [type, data] of chunks) {
    const end = at + 8 + data.length;
    view.setUint32(at, data.length);
    for (let index = 0; index < 4; index++) {
      file[at + 4 + index] = type.charCodeAt(index);
    }
    file.set(data, at + 8);
    view.setUint32(end, crc32(file.subarray(at + 4, end)));
    at = end + 4;
  }
  return file;
}

function noPicture(reason: "dtype" | "shape", { dtype, shape }: Tensor): TensorError {
  return new TensorError({
    reason,
    expected:
      "a picture: uint8 of shape [height, width] or [height, width, channels] with 1 to 4 channels",
    received: `${dtype} of shape [${shape}]`,
  });
}
