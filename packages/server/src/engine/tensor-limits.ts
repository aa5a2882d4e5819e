// SPDX-License-Identifier: Apache-2.0
import type { Tensor as TensorMessage } from "@dm-env-rpc/protocol";
import { type PackedTensor, TensorError } from "@dm-env-rpc/tensor-codec";
import { unpackTensor } from "@dm-env-rpc/tensor-codec/proto";
import type { PackedSettings } from "./requests.ts";

/** Limits of the tensors in a request. */
export interface TensorLimits {
  readonly maxElements: number;
  readonly maxStringBytes: number;
  readonly maxEntries: number;
  readonly maxDimensions: number;
}

/**
 * Unpacks a tensor of a request other than a step, and checks it. Steps are checked against all
 * limits while they are decoded; before other requests are decoded, only their size, work, entries
 * and dimensions are checked.
 *
 * @throws TensorError naming the tensor, with the reason `limit`, `dtype` or `shape`.
 */
export function unpackLimited(
  message: TensorMessage,
  limits: TensorLimits,
  name: string,
): PackedTensor {
  const packed = unpackTensor(message);
  checkLimits(packed, limits, name);
  return packed;
}

/**
 * Unpacks the settings of a request.
 *
 * @throws TensorError naming the setting, with the reason `limit`, `dtype` or `shape`.
 */
export function unpackSettings(
  settings: Readonly<Record<string, TensorMessage>>,
  limits: TensorLimits,
): PackedSettings {
  return new Map(
    Object.entries(settings).map(([name, message]) => [name, unpackLimited(message, limits, name)]),
  );
}

function checkLimits(packed: PackedTensor, limits: TensorLimits, name: string): void {
  const { maxElements, maxStringBytes, maxDimensions } = limits;
  if (packed.shape.length > maxDimensions) {
    throw tooMuch(name, "dimensions", packed.shape.length, "maxDimensions", maxDimensions);
  }
  let count = 1;
  for (const size of packed.shape) {
    if (size >= 0) {
      count *= size;
    }
  }
  count = Math.max(count, packed.data.length);
  if (count > maxElements) {
    throw tooMuch(name, "elements", count, "maxElements", maxElements);
  }
  if (packed.dtype !== "string") {
    return;
  }
  const encoder = new TextEncoder();
  for (const text of packed.data as readonly string[]) {
    const bytes = encoder.encode(text).length;
    if (bytes > maxStringBytes) {
      throw tooMuch(name, "bytes in a string", bytes, "maxStringBytes", maxStringBytes);
    }
  }
}

function tooMuch(name: string, of: string, count: number, limit: string, max: number): TensorError {
  return new TensorError({
    reason: "limit",
    name,
    expected: `at most ${max} ${of} (limit: ${limit})`,
    received: `${count}`,
    remedy: `send less, or have the server's ${limit} raised`,
  });
}
