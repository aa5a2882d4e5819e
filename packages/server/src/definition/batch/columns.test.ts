// SPDX-License-Identifier: Apache-2.0
import { type DType, dtypes, packFor, type TensorSpec } from "@dm-env-rpc/tensor-codec";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { sampleEvery } from "../observation-checks.ts";
import { Column, columnsOf, observersOf } from "./columns.ts";

/** The largest float32, and the least number that rounds to infinity. */
const [largest, overflow] = [3.4028234663852886e38, 2 ** 128 - 2 ** 103];
const edges = [largest, overflow, 1e39, Number.MAX_VALUE, Number.POSITIVE_INFINITY, 0.5];
const ends = [127, 128, 255, 256, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32];

const element = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: 0, max: 9 }) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(...[...edges, ...ends].flatMap((each) => [each, -each])),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom<unknown>(
      Number.NaN,
      -0,
      -129,
      2n,
      -7n,
      true,
      "word",
      null,
      undefined,
    ),
  },
);

const shapes = [[], [1], [3], [2, 2], [17]] as const;
const names = [
  "float32",
  "float64",
  "int8",
  "uint8",
  "int32",
  "uint32",
  "int64",
  "bool",
  "string",
] as const;

/** A spec with or without bounds, and a value that may fit it. */
const cases = fc
  .record({
    dtype: fc.constantFrom(...names),
    shape: fc.constantFrom<readonly number[]>(...shapes),
    bounds: fc.constantFrom("none", "min", "max", "both", "elements"),
  })
  .chain(({ dtype, shape, bounds }) => {
    const width = shape.reduce((product, size) => product * size, 1);
    const flat = (length: number) => fc.array(element, { minLength: length, maxLength: length });
    const typed = (of: DType, length: number) =>
      fc
        .array(fc.integer({ min: 0, max: 9 }), { minLength: length, maxLength: length })
        .map((values) => {
          const data = dtypes[of].allocate(length);
          for (const [i, value] of values.entries()) {
            data[i] = (of === "int64" ? BigInt(value) : value) as never;
          }
          return data;
        });
    const value = fc.oneof(
      element,
      flat(width),
      fc.array(fc.integer({ min: 0, max: 9 }), { minLength: width, maxLength: width }),
      flat(width).map((values) =>
        shape.length === 2 ? [values.slice(0, 2), values.slice(2)] : values,
      ),
      flat(width + 1),
      typed(dtype, width),
      typed(dtype, width + 1),
      typed("int8", width),
    );
    const bound = (limit: number) => (dtype === "int64" ? BigInt(limit) : limit);
    const hasBounds = dtype !== "bool" && dtype !== "string";
    const spec = {
      dtype,
      shape,
      ...(hasBounds && (bounds === "min" || bounds === "both") && { min: bound(2) }),
      ...(hasBounds && (bounds === "max" || bounds === "both") && { max: bound(7) }),
      ...(hasBounds &&
        bounds === "elements" && {
          max: Array.from({ length: width }, (_, i) => bound(i % 2 === 0 ? 9 : 5)),
        }),
    };
    return fc.tuple(fc.constant(spec as unknown as TensorSpec), value);
  });

/** Returns the elements of a result, or the message of its error. */
function outcomeOf(elements: () => ArrayLike<unknown>): unknown {
  try {
    return Array.from(elements());
  } catch (error) {
    return (error as Error).message;
  }
}

/** The row of a slot in a column. */
function rowOf(column: Column, slot: number): ArrayLike<unknown> {
  const width = column.tensor.data.length / (column.tensor.shape[0] ?? 1);
  return column.tensor.data.slice(slot * width, (slot + 1) * width);
}

describe("a column", () => {
  it.each(["always", "off"] as const)(
    "accepts and refuses the same values as `packFor`, with the same elements and errors, with checks %s",
    (checks) => {
      fc.assert(
        fc.property(cases, ([spec, value]) => {
          const column = new Column("seen", spec, 3, checks);
          const { dtype, shape } = spec;
          const checked = checks === "always" ? spec : { dtype, shape };
          const packed = outcomeOf(() => packFor(value, checked, "seen").data);
          const written = outcomeOf(() => {
            column.write(1, column.accept(value));
            return rowOf(column, 1);
          });
          expect(written).toEqual(packed);
          // The other rows are unchanged.
          const zeros: ArrayLike<unknown> = dtypes[dtype].allocate(rowOf(column, 0).length);
          const empty = Array.from(zeros);
          expect([rowOf(column, 0), rowOf(column, 2)].map((row) => Array.from(row))).toEqual([
            empty,
            empty,
          ]);
          const other = new Column("final", spec, 3, "off");
          other.copyRow(column, 1);
          expect(other.tensor).toEqual(column.tensor);
          column.clear(1);
          expect(Array.from(rowOf(column, 1))).toEqual(empty);
        }),
        { numRuns: 2_000 },
      );
    },
  );

  it("checks bounds of one observation in 61 if they are sampled, beginning with the first", () => {
    const column = new Column("seen", { dtype: "int32", shape: [], max: 5 }, 1, "sampled");
    const refused = Array.from({ length: 2 * sampleEvery + 1 }, (_, at) => at).filter(() => {
      try {
        column.accept(6);
        return false;
      } catch {
        return true;
      }
    });
    expect(refused).toEqual([0, sampleEvery, 2 * sampleEvery]);
  });

  it("of float32 refuses numbers that round to infinity, and accepts the largest that do not", () => {
    const column = new Column("seen", { dtype: "float32", shape: [] }, 1, "off");
    for (const value of [overflow, -overflow, 1e39]) {
      expect(() => column.accept(value)).toThrow(/float32/);
    }
    column.write(0, column.accept(largest));
    expect(column.tensor.data[0]).toBe(largest);
  });

  it("of float64 accepts numbers that are too large for float32", () => {
    const column = new Column("seen", { dtype: "float64", shape: [2] }, 1, "off");
    column.write(0, column.accept([1e300, -Number.MAX_VALUE]));
    expect([...column.tensor.data]).toEqual([1e300, -Number.MAX_VALUE]);
  });
});

it("columns have the full names of nested specs, and their observers are nested as the specs are", () => {
  const specs = {
    at: { row: { dtype: "int32", shape: [] }, col: { dtype: "int8", shape: [2] } },
  } as const;
  const columns = columnsOf(specs, 4, "off");
  expect(columns.map(({ name, path }) => [name, path])).toEqual([
    ["at.row", ["at", "row"]],
    ["at.col", ["at", "col"]],
  ]);
  const observers = observersOf(columns) as { at: Record<"row" | "col", () => unknown> };
  expect(observers.at.row()).toBe(columns[0]?.tensor);
  expect(observers.at.col()).toMatchObject({ dtype: "int8", shape: [4, 2] });
});
