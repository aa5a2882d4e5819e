// SPDX-License-Identifier: Apache-2.0
import { type Tensor, tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { RewardSum } from "./rewards.ts";

function sumOf(...rewards: readonly Tensor[]): Tensor | undefined {
  const sum = new RewardSum();
  for (const reward of rewards) {
    sum.add(reward);
  }
  return sum.take();
}

describe("behaviour 63: a sum of rewards of 64-bit integers", () => {
  const int64 = (value: bigint) => tensor("int64", [], BigInt64Array.of(value));
  const uint64 = (value: bigint) => tensor("uint64", [], BigUint64Array.of(value));

  it("is exact up to the end of its dtype", () => {
    expect(sumOf(int64(2n ** 62n), int64(2n ** 62n - 1n))).toEqual(int64(2n ** 63n - 1n));
    expect(sumOf(uint64(2n ** 63n), uint64(2n ** 63n - 1n))).toEqual(uint64(2n ** 64n - 1n));
  });

  it("is refused past it", () => {
    expect(() => sumOf(int64(2n ** 62n), int64(2n ** 62n))).toThrow(
      /"reward": expected a sum that fits int64, received 9223372036854775808/,
    );
    expect(() => sumOf(uint64(2n ** 63n), uint64(2n ** 63n))).toThrow(
      /"reward": expected a sum that fits uint64, received 18446744073709551616/,
    );
  });
});
