// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { AnySchema } from "@bufbuild/protobuf/wkt";
import { pack, type Tensor, tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { RewardSum } from "./rewards.ts";

function sumOf(...rewards: readonly Tensor[]): Tensor | undefined {
  const sum = new RewardSum();
  for (const reward of rewards) {
    sum.add(reward);
  }
  return sum.take();
}

function errorOf(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  return undefined;
}

describe("behaviour 63: a sum of rewards", () => {
  const float32 = (...values: number[]) =>
    tensor("float32", [values.length], Float32Array.from(values));

  it("adds up each element", () => {
    expect(sumOf(float32(1, 2), float32(3, 4), float32(5, 6))).toEqual(float32(9, 12));
  });

  it("is refused if the number of elements changes", () => {
    const refused = errorOf(() => sumOf(float32(1), float32(1, 2)));
    expect(refused).toMatchObject({
      reason: "shape",
      message: expect.stringMatching(/1 elements, as in the ticks before, received 2 elements/),
    });
  });

  it.each([
    ["string", tensor("string", [], ["won"])],
    ["bool", tensor("bool", [], Uint8Array.of(1))],
    ["proto", tensor("proto", [], [create(AnySchema, { typeUrl: "type.googleapis.com/won" })])],
  ])(
    "is refused for two rewards of dtype %s; a single one is returned as it is",
    (dtype, reward) => {
      expect(sumOf(reward)).toEqual(reward);
      expect(errorOf(() => sumOf(reward, reward))).toMatchObject({
        reason: "dtype",
        specName: "reward",
        message: expect.stringMatching(`expected a numeric dtype.*received ${dtype}`),
      });
    },
  );

  it("is exact within the range of a small dtype, and refused beyond it", () => {
    const int8 = (...values: number[]) => tensor("int8", [values.length], Int8Array.from(values));
    expect(sumOf(int8(-100, 100), int8(-28, 27))).toEqual(int8(-128, 127));
    for (const [by, sum] of [
      [int8(-29, 0), -129],
      [int8(0, 28), 128],
    ] as const) {
      expect(errorOf(() => sumOf(int8(-100, 100), by))).toMatchObject({
        reason: "value",
        message: expect.stringMatching(`expected a sum that fits int8, received ${sum}`),
      });
    }
  });

  it("is empty until a reward is added, and again once it is taken or cleared", () => {
    const sum = new RewardSum();
    const states = [sum.isEmpty];
    for (const end of [() => sum.take(), () => sum.clear()]) {
      sum.add(float32(1));
      states.push(sum.isEmpty);
      end();
      states.push(sum.isEmpty);
    }
    expect(states).toEqual([true, false, true, false, true]);
    expect(sum.take()).toBeUndefined();
  });

  it("counts scalars for the return of a sequence, including 64-bit integers", () => {
    const sum = new RewardSum();
    sum.count(pack(2.5, { dtype: "float64" }));
    sum.count(pack(3n, { dtype: "int64" }));
    expect([sum.total, sum.last]).toEqual([5.5, 3]);
    sum.count(pack([7, 8], { dtype: "float32" }));
    sum.count(pack("won", { dtype: "string" }));
    expect([sum.total, sum.last]).toEqual([5.5, 3]);
  });
});

describe("behaviour 63: a sum of rewards of 64-bit integers", () => {
  const int64 = (value: bigint) => tensor("int64", [], BigInt64Array.of(value));
  const uint64 = (value: bigint) => tensor("uint64", [], BigUint64Array.of(value));

  it("is exact up to the end of its dtype", () => {
    expect(sumOf(int64(2n ** 62n), int64(2n ** 62n - 1n))).toEqual(int64(2n ** 63n - 1n));
    expect(sumOf(int64(-(2n ** 62n)), int64(-(2n ** 62n)))).toEqual(int64(-(2n ** 63n)));
    expect(sumOf(uint64(2n ** 63n), uint64(2n ** 63n - 1n))).toEqual(uint64(2n ** 64n - 1n));
  });

  it("is refused beyond the end of its dtype", () => {
    expect(() => sumOf(int64(2n ** 62n), int64(2n ** 62n))).toThrow(
      /"reward": expected a sum that fits int64, received 9223372036854775808/,
    );
    expect(() => sumOf(uint64(2n ** 63n), uint64(2n ** 63n))).toThrow(
      /"reward": expected a sum that fits uint64, received 18446744073709551616/,
    );
  });
});
