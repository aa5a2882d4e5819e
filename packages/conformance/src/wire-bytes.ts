// SPDX-License-Identifier: Apache-2.0
import { dtypes, type Tensor } from "@dm-env-rpc/tensor-codec";
import type { Uid } from "@dm-env-rpc/tensor-codec/wire";

/** Encodes a varint; a negative number has 64 bits, as in protobuf. */
export function varint(value: bigint): readonly number[] {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  while (rest > 127n) {
    bytes.push(Number(rest & 127n) | 128);
    rest >>= 7n;
  }
  return [...bytes, Number(rest)];
}

/** Encodes a length-delimited field. */
export function bytesField(number: number, bytes: readonly number[]): readonly number[] {
  return [...varint(BigInt(number * 8 + 2)), ...varint(BigInt(bytes.length)), ...bytes];
}

/**
 * Encodes a StepRequest with one action in unusual ways: its numbers packed in two chunks, or not packed
 * (dm_env_rpc.proto, "Tensor"). Empty for dtypes with a single encoding.
 */
export function unusualSteps(uid: Uid, tensor: Tensor): readonly (readonly [string, number[]])[] {
  const { kind, bytes, dataType } = dtypes[tensor.dtype];
  if (kind === "string" || kind === "proto" || (kind === "int" && bytes === 1)) {
    return [];
  }
  const [wireType, elements] = elementsOf(tensor);
  const half = Math.ceil(elements.length / 2);
  const arrays = {
    "packed in two chunks": [elements.slice(0, half), elements.slice(half)].flatMap((chunk) =>
      bytesField(1, chunk.flat()),
    ),
    "not packed": elements.flatMap((element) => [8 + wireType, ...element]),
  };
  const shape = tensor.shape.flatMap((size) => varint(BigInt(size)));
  return Object.entries(arrays).map(([how, array]) => {
    const message = [...bytesField(dataType, array), ...bytesField(15, shape)];
    const entry = [8, ...varint(BigInt(uid)), ...bytesField(2, message)];
    return [how, [...bytesField(3, bytesField(1, entry))]];
  });
}

/** Returns the wire type of a tensor's elements and the bytes of each. */
function elementsOf({ dtype, data }: Tensor): readonly [number, readonly (readonly number[])[]] {
  const { kind, bytes: width } = dtypes[dtype];
  if (kind === "float") {
    const bytes = [...new Uint8Array((data as Float32Array).slice().buffer)];
    const each = Array.from({ length: data.length }, (_, i) =>
      bytes.slice(i * width, (i + 1) * width),
    );
    return [width === 4 ? 5 : 1, each];
  }
  return [
    0,
    Array.from(data as ArrayLike<number | bigint | boolean>, (one) => varint(BigInt(one))),
  ];
}
