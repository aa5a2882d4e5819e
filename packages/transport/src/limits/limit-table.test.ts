// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { type Limit, readLimits } from "./limit-table.ts";

class Table {
  readonly maxDogs: Limit = { default: 3, unit: "count" };
  readonly maxBowlBytes: Limit = { default: 1024, unit: "bytes", most: 4096 };
  readonly barkMs: Limit = { default: 30_000, unit: "ms" };
  readonly idleMs: Limit = { default: 500, unit: "ms", zero: "never" };
}

const table = new Table();

describe("a table of limits", () => {
  it("returns its defaults for limits that are not given", () => {
    const defaults = { maxDogs: 3, maxBowlBytes: 1024, barkMs: 30_000, idleMs: 500 };
    expect(readLimits(table)).toEqual(defaults);
    expect(readLimits(table, { maxDogs: Number.POSITIVE_INFINITY, idleMs: 0 })).toEqual({
      ...defaults,
      maxDogs: Number.POSITIVE_INFINITY,
      idleMs: 0,
    });
    expect(readLimits(table, { barkMs: 1.5 }).barkMs).toBe(1.5);
  });

  it.each([
    [{ maxDogs: 0 }, "limit maxDogs: expected a whole number of at least 1, received 0"],
    [{ maxDogs: 1.5 }, "limit maxDogs: expected a whole number of at least 1, received 1.5"],
    [
      { maxBowlBytes: Number.POSITIVE_INFINITY },
      "limit maxBowlBytes: expected a whole number of bytes from 1 to 4096, received Infinity",
    ],
    [
      { barkMs: Number.NaN },
      "limit barkMs: expected a number of milliseconds from 1 to 2147483647, received NaN",
    ],
    [
      { barkMs: 0 },
      "limit barkMs: expected a number of milliseconds from 1 to 2147483647, received 0",
    ],
    [
      { idleMs: 2 ** 31 },
      "limit idleMs: expected a number of milliseconds from 0 to 2147483647, received 2147483648; 0 means never",
    ],
  ])("refuses %o", (given, message) => {
    expect(() => readLimits(table, given)).toThrow(new RangeError(message));
  });

  it("refuses unknown limits by name", () => {
    const given = { maxDog: 1 };
    expect(() => readLimits<string>({ ...table }, given, "setting")).toThrow(
      'unknown setting "maxDog": expected one of maxDogs, maxBowlBytes, barkMs, idleMs',
    );
  });
});
