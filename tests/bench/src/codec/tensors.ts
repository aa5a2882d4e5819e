// SPDX-License-Identifier: Apache-2.0
import { type PackedTensor, tensor } from "@dm-env-rpc/tensor-codec";

/** A tensor to measure. */
export interface TensorCase {
  readonly name: string;
  readonly tensor: PackedTensor;
  /** True if one run takes milliseconds, so that fewer repetitions suffice. */
  readonly large?: boolean;
}

/** Numbers from 0 to 1, the same in every run. */
export function seeded(seed = 1): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The tensors of the table. */
export function tensorCases(): readonly TensorCase[] {
  const random = seeded();
  const integer = (magnitude: number) => Math.trunc((random() * 2 - 1) * magnitude);
  const image = [84, 84, 4];
  const screen = [210, 160, 3];
  const many = 1_000_000;
  return [
    {
      name: "float32 [84,84,4]",
      tensor: tensor("float32", image, Float32Array.from({ length: 84 * 84 * 4 }, random)),
    },
    {
      name: "uint8 [210,160,3]",
      tensor: tensor(
        "uint8",
        screen,
        Uint8Array.from({ length: 210 * 160 * 3 }, () => random() * 256),
      ),
    },
    {
      name: "int32 [1000] small",
      tensor: tensor(
        "int32",
        [1000],
        Int32Array.from({ length: 1000 }, () => random() * 100),
      ),
    },
    {
      name: "int32 [1000] ±1e6",
      tensor: tensor(
        "int32",
        [1000],
        Int32Array.from({ length: 1000 }, () => integer(1e6)),
      ),
    },
    {
      name: "int64 [1000] ±1e15",
      tensor: tensor(
        "int64",
        [1000],
        BigInt64Array.from({ length: 1000 }, () => BigInt(integer(1e15))),
      ),
    },
    {
      name: "bool [1000]",
      tensor: tensor(
        "bool",
        [1000],
        Uint8Array.from({ length: 1000 }, () => (random() < 0.5 ? 0 : 1)),
      ),
    },
    {
      name: "float32 [1000000]",
      tensor: tensor("float32", [many], Float32Array.from({ length: many }, random)),
      large: true,
    },
    {
      name: "string [100]",
      tensor: tensor(
        "string",
        [100],
        Array.from({ length: 100 }, (_, i) => `a word, number ${i}`),
      ),
    },
  ];
}
