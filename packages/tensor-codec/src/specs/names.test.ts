// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { pack } from "../packing/pack.ts";
import { t } from "./build.ts";
import { checkNames, flattenSpecs, flattenValues, nestValues } from "./names.ts";

const refusal = (...texts: string[]) =>
  expect.objectContaining({
    name: "TensorError",
    reason: "name",
    message: expect.stringMatching(
      new RegExp(texts.map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(".*")),
    ),
  });

describe("behaviour 15: nested names", () => {
  test("specs flatten to dotted names, in the order given", () => {
    const flat = flattenSpecs({
      reward: t.float32(),
      arm: { joints: t.float32([7]), hand: { open: t.bool() } },
    });
    expect(Object.keys(flat)).toEqual(["reward", "arm.joints", "arm.hand.open"]);
    expect(flat["arm.joints"]).toEqual(t.float32([7]));
  });

  test("a record whose specs are named like the fields of a spec is a record", () => {
    expect(Object.keys(flattenSpecs({ a: { dtype: t.bool(), shape: t.bool() } }))).toEqual([
      "a.dtype",
      "a.shape",
    ]);
  });

  test("a dot in a key is an error, unless allowed", () => {
    expect(() => flattenSpecs({ a: { "b.c": t.bool() } })).toThrow(
      refusal('keys without "."', '"a.b.c"'),
    );
    expect(() => flattenSpecs({ "a.b": t.bool() })).toThrow(refusal("allowDots"));
    expect(Object.keys(flattenSpecs({ "a.b": t.bool() }, { allowDots: true }))).toEqual(["a.b"]);
  });

  test("a name that is both a leaf and a parent is an error that names both", () => {
    expect(() => flattenSpecs({ a: t.bool(), "a.b": t.bool() }, { allowDots: true })).toThrow(
      refusal('both "a" and "a.b"'),
    );
    expect(() => nestValues({ a: 1, "a.b": 2 })).toThrow(refusal('both "a" and "a.b"'));
    expect(() => nestValues({ "a.b": 1, a: 2 })).toThrow(refusal('both "a" and "a.'));
    expect(() => nestValues({ "a.b.c": 1, "a.b": 2 })).toThrow(refusal('"a.b"'));
    expect(() => checkNames(["x.y.z", "x.y"])).toThrow(refusal('both "x.y" and "x.y.z"'));
    expect(() => checkNames(["x", "xy.z"])).not.toThrow();
    expect(() => checkNames(["", ".a"])).toThrow(refusal(`both "" and ".a"`));
  });

  test("a record is a tensor only with a dtype, a shape and data", () => {
    const data = [1];
    for (const record of [
      { dtype: 1, shape: 2 },
      { dtype: 1, data },
      { shape: 2, data },
    ]) {
      const [first, second] = Object.keys(record);
      expect(Object.keys(flattenValues({ a: record }))).toEqual([`a.${first}`, `a.${second}`]);
    }
    const whole = { dtype: "int8", shape: [], data };
    expect(flattenValues({ a: whole })).toEqual({ a: whole });
  });

  test("a duplicate name is an error", () => {
    expect(() =>
      flattenSpecs({ a: { b: t.bool() }, "a.b": t.bool() }, { allowDots: true }),
    ).toThrow(refusal("unique", '"a.b" twice'));
    expect(() =>
      nestValues([
        ["a", 1],
        ["a", undefined],
      ]),
    ).toThrow(refusal('"a" twice'));
  });

  test("values nest as their names say, and flatten back", () => {
    const key = fc.stringMatching(/^[a-z]{1,3}$/);
    const { record } = fc.letrec((tie) => ({
      record: fc.dictionary(key, fc.oneof(fc.integer(), tie("record")), {
        maxKeys: 4,
        noNullPrototype: true,
      }),
    }));
    const pruned = (value: object): object =>
      Object.fromEntries(
        Object.entries(value)
          .map(([name, child]) => [name, typeof child === "object" ? pruned(child) : child])
          .filter(([, child]) => typeof child !== "object" || Object.keys(child).length > 0),
      );
    fc.assert(
      fc.property(record, (values) => {
        const flat = flattenValues(values as Record<string, unknown>);
        expect(nestValues(flat)).toEqual(pruned(values as object));
      }),
    );
  });

  test("tensors, arrays, messages and class instances are values; undefined is left out", () => {
    const tensor = pack([1]);
    const any = { $typeName: "google.protobuf.Any", typeUrl: "", value: new Uint8Array(0) };
    const date = new Date(0);
    expect(
      flattenValues({
        a: { tensor, list: [1], nothing: undefined, empty: {} },
        any,
        date,
        none: null,
      }),
    ).toEqual({ "a.tensor": tensor, "a.list": [1], any, date, none: null });
  });

  test("a hostile name cannot reach a prototype", () => {
    const nested = nestValues([
      ["__proto__.polluted", 1],
      ["constructor.x", 2],
    ]);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    expect(Object.keys(nested)).toEqual(["__proto__", "constructor"]);
    expect(Object.getPrototypeOf(nested)).toBe(Object.prototype);
    expect(flattenValues(nested as never)).toEqual(
      Object.fromEntries([
        ["__proto__.polluted", 1],
        ["constructor.x", 2],
      ]),
    );
  });

  test("a record that contains itself is an error", () => {
    const circle: Record<string, unknown> = {};
    circle["a"] = circle;
    expect(() => flattenValues(circle)).toThrow(refusal("do not contain themselves"));
    expect(() => flattenSpecs({ a: 1 as never })).toThrow(refusal("a spec or a record of specs"));
  });
});
