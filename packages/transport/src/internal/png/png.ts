// SPDX-License-Identifier: Apache-2.0
import { availableParallelism } from "node:os";
import { promisify } from "node:util";
import { crc32, deflate, deflateSync } from "node:zlib";
import type { Tensor } from "@dm-env-rpc/tensor-codec";
import { Slots } from "../turns/slots.ts";
import { assemble, layOut } from "./png-file.ts";

/** Pictures that are compressed at the same time leave one core to the event loop, and one of libuv's four threads free. */
const slots = new Slots(Math.min(3, Math.max(1, availableParallelism() - 1)));

/**
 * Encodes a picture as a PNG file: a uint8 tensor of shape [height, width, channels] with 1 (grey),
 * 2 (grey, alpha), 3 (RGB) or 4 (RGBA) channels, or of shape [height, width].
 *
 * @throws TensorError `dtype` or `shape` if the tensor is not a picture.
 */
export function encodePng(picture: Tensor): Uint8Array<ArrayBuffer> {
  const { header, rows } = layOut(picture);
  return assemble(header, deflateSync(rows), crc32);
}

/**
 * Encodes a picture as `encodePng` does, but faster, at a larger size, and off the event loop.
 *
 * The tensor's memory may be reused once this returns.
 *
 * @param network The viewer's network. Networks take turns, so that none waits for all the pictures of another.
 * @throws TensorError as `encodePng` does, synchronously.
 */
export function encodePngBeside(
  picture: Tensor,
  network: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const { header, rows } = layOut(picture);
  return slots
    .run(network, () => deflateBeside(rows, { level: 1 }))
    .then((pixels) => assemble(header, pixels, crc32));
}

const deflateBeside = promisify<Uint8Array, { level: number }, Buffer>(deflate);
