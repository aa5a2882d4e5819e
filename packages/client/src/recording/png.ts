// SPDX-License-Identifier: Apache-2.0
import { crc32, deflateSync } from "node:zlib";
import { type Tensor, TensorError } from "@dm-env-rpc/tensor-codec";

const signature = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);

/** PNG's colour type by the number of channels: grey, grey and alpha, RGB, RGBA. */
const colourTypes = [undefined, 0, 4, 2, 6] as const;

/**
 * The PNG file of a picture: a uint8 tensor of shape [height, width, channels] with 1 (grey), 2 (grey, alpha),
 * 3 (RGB) or 4 (RGBA) channels, or of shape [height, width].
 *
 * @throws TensorError `dtype` or `shape` for what is no picture.
 */
export function encodePng(picture: Tensor): Uint8Array {
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
  // A byte in front of each row says how it is filtered: not at all.
  const rows = new Uint8Array(height * (rowBytes + 1));
  for (let row = 0; row < height; row++) {
    const pixels = picture.data.subarray(row * rowBytes, (row + 1) * rowBytes);
    rows.set(pixels, row * (rowBytes + 1) + 1);
  }
  return Buffer.concat([
    signature,
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", new Uint8Array(0)),
  ]);
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
