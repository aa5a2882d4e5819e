// SPDX-License-Identifier: Apache-2.0
import { promisify } from "node:util";
import { crc32, deflate, deflateSync } from "node:zlib";
import { type Tensor, TensorError } from "@dm-env-rpc/tensor-codec";

const signature = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);

/** PNG's colour type by the number of channels: grey, grey and alpha, RGB, RGBA. */
const colourTypes = [undefined, 0, 4, 2, 6] as const;

/**
 * Encodes a picture as a PNG file: a uint8 tensor of shape [height, width, channels] with 1 (grey),
 * 2 (grey, alpha), 3 (RGB) or 4 (RGBA) channels, or of shape [height, width].
 *
 * @throws TensorError `dtype` or `shape` if the tensor is not a picture.
 */
export function encodePng(picture: Tensor): Uint8Array<ArrayBuffer> {
  const { header, rows } = layOut(picture);
  return assemble(header, deflateSync(rows));
}

/**
 * Encodes a picture as `encodePng` does, but faster, at a larger size, and off the event loop.
 *
 * The tensor's memory may be reused once this returns.
 *
 * @throws TensorError as `encodePng` does, synchronously.
 */
export function encodePngBeside(picture: Tensor): Promise<Uint8Array<ArrayBuffer>> {
  const { header, rows } = layOut(picture);
  return deflateBeside(rows, { level: 1 }).then((pixels) => assemble(header, pixels));
}

const deflateBeside = promisify<Uint8Array, { level: number }, Buffer>(deflate);

interface Layout {
  /** Content of the IHDR chunk. */
  readonly header: Uint8Array;
  /** Pixels, with a filter byte before each row. */
  readonly rows: Uint8Array;
}

function layOut(picture: Tensor): Layout {
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
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
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

function assemble(header: Uint8Array, pixels: Uint8Array): Uint8Array<ArrayBuffer> {
  const parts = [
    signature,
    chunk("IHDR", header),
    chunk("IDAT", pixels),
    chunk("IEND", new Uint8Array(0)),
  ];
  return new Uint8Array(Buffer.concat(parts));
}

function chunk(type: string, data: Uint8Array): Uint8Array {
  const bytes = Buffer.alloc(data.length + 12);
  bytes.writeUInt32BE(data.length, 0);
  bytes.write(type, 4, "latin1");
  bytes.set(data, 8);
  bytes.writeUInt32BE(crc32(bytes.subarray(4, 8 + data.length)), 8 + data.length);
  return bytes;
}

function noPicture(reason: "dtype" | "shape", { dtype, shape }: Tensor): TensorError {
  return new TensorError({
    reason,
    expected: "a picture: uint8 of shape [height, width, 1, 2, 3 or 4 channels] or [height, width]",
    received: `${dtype} of shape [${shape}]`,
  });
}
