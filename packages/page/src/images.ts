// SPDX-License-Identifier: Apache-2.0
import type { Tensor } from "@dm-env-rpc/tensor-codec";

/** Minimum number of rows and of columns of a tensor that is shown as an image. */
const minSide = 4;

/** Returns the elements of a tensor as numbers; undefined for strings and messages. */
export function numbersOf(tensor: Tensor): readonly number[] | undefined {
  return tensor.dtype === "string" || tensor.dtype === "proto"
    ? undefined
    : Array.from(tensor.data as ArrayLike<number | bigint>, Number);
}

/**
 * Returns a tensor as an image. A uint8 tensor of shape [height, width, channels] with 1, 3 or 4 channels has its own colours.
 * Other numbers of two or three dimensions become greys between their least and greatest values, with the channels side by
 * side. Returns undefined for all other tensors, and for tensors of fewer than four rows or columns.
 */
export function imageOf(tensor: Tensor): ImageData | undefined {
  const [height = 0, width = 0, channels = 1] = tensor.shape;
  const isPlane = tensor.shape.length === 2 || tensor.shape.length === 3;
  const numbers = numbersOf(tensor);
  if (!isPlane || height < minSide || width < minSide || channels === 0 || numbers === undefined) {
    return undefined;
  }
  if (tensor.dtype === "uint8" && tensor.shape.length === 3 && [1, 3, 4].includes(channels)) {
    return colours(numbers, height, width, channels);
  }
  return greys(numbers, height, width, channels);
}

function colours(
  numbers: readonly number[],
  height: number,
  width: number,
  channels: number,
): ImageData {
  const image = new ImageData(width, height);
  for (let pixel = 0; pixel < width * height; pixel++) {
    const at = (channel: number): number => numbers[pixel * channels + channel] ?? 0;
    const colour = channels === 1 ? [at(0), at(0), at(0), 255] : [at(0), at(1), at(2), 255];
    image.data.set(channels === 4 ? [at(0), at(1), at(2), at(3)] : colour, pixel * 4);
  }
  return image;
}

function greys(
  numbers: readonly number[],
  height: number,
  width: number,
  channels: number,
): ImageData {
  const image = new ImageData(width * channels, height);
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const number of numbers) {
    low = Math.min(low, number);
    high = Math.max(high, number);
  }
  const scale = high > low ? 255 / (high - low) : 0;
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width * channels; column++) {
      const from = (row * width + (column % width)) * channels + Math.floor(column / width);
      const grey = ((numbers[from] ?? low) - low) * scale;
      image.data.set([grey, grey, grey, 255], (row * width * channels + column) * 4);
    }
  }
  return image;
}

/** Draws an image at its own size. */
export function drawImage(canvas: HTMLCanvasElement, image: ImageData): void {
  canvas.width = image.width;
  canvas.height = image.height;
  canvas.getContext("2d")?.putImageData(image, 0, 0);
}
