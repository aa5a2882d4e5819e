// SPDX-License-Identifier: Apache-2.0
/// <reference lib="dom" />
import { type Tensor, tensor } from "@dm-env-rpc/tensor-codec";

/**
 * Creates a function that reads the scaled pixels of a canvas.
 *
 * @returns A function that returns borrowed uint8 [height, width, 3], valid until the next call.
 */
export function pixelReader(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
): () => Tensor<"uint8"> {
  const scaled = new OffscreenCanvas(width, height);
  // Keeps the pixels in main memory instead of the GPU's, because every tick reads them.
  const context = scaled.getContext("2d", { willReadFrequently: true, alpha: false });
  if (context === null) {
    throw new Error(
      "the canvas cannot be read: expected a 2D context, received none; use another browser",
    );
  }
  const rgb = new Uint8Array(width * height * 3);
  return () => {
    context.drawImage(canvas, 0, 0, width, height);
    const { data } = context.getImageData(0, 0, width, height);
    for (let from = 0, to = 0; to < rgb.length; from += 4, to += 3) {
      rgb[to] = data[from] ?? 0;
      rgb[to + 1] = data[from + 1] ?? 0;
      rgb[to + 2] = data[from + 2] ?? 0;
    }
    return tensor("uint8", [height, width, 3], rgb);
  };
}
