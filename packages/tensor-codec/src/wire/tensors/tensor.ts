// SPDX-License-Identifier: Apache-2.0
import { TensorError } from "../../errors/tensor-error.ts";
import type { PackedTensor } from "../../tensors/tensor.ts";
import { type CodecOptions, readOptionsOf } from "../primitives/read-options.ts";
import { Reader } from "../primitives/reader.ts";
import { Sizes } from "../primitives/sizes.ts";
import { readTensor } from "./tensor-reader.ts";
import { tensorSize, writeTensor } from "./tensor-writer.ts";

/** Encodes a tensor as the message `Tensor`, in a new buffer. */
export function encodeTensor(packed: PackedTensor): Uint8Array {
  const sizes = new Sizes();
  const bytes = new Uint8Array(tensorSize(packed, sizes));
  writeTensor(packed, sizes, bytes, 0);
  return bytes;
}

/**
 * Decodes the bytes of a message `Tensor`: `unpack` the result to infer a variable dimension or to
 * broadcast a single element.
 *
 * Its data is a view of `bytes` where alignment allows, and changes with them; with `copy: true` it is
 * a copy.
 *
 * @throws TensorError `malformed` with the offset, `limit`, or `dtype` if the payload is unset.
 */
export function decodeTensor(bytes: Uint8Array, options: CodecOptions = {}): PackedTensor {
  const readOptions = readOptionsOf(options);
  const reader = new Reader(readOptions);
  reader.open(bytes, 0, bytes.length);
  const tensor = readTensor(reader, readOptions);
  if (tensor.dtype === "unset") {
    throw new TensorError({
      reason: "dtype",
      expected: "a Tensor with a payload",
      received: "one without",
    });
  }
  return tensor;
}
