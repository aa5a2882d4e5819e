// SPDX-License-Identifier: Apache-2.0
import { tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { mergeActions } from "./merge-actions.ts";

describe("actions in force", () => {
  it("are those of the first step until another step changes them", () => {
    expect(mergeActions(undefined, {})).toBeUndefined();
    expect(mergeActions(undefined)).toBeUndefined();
    expect(mergeActions(undefined, { jump: true })).toEqual({ jump: true });
    const inForce = { jump: true };
    expect(mergeActions(inForce, {})).toBe(inForce);
  });

  it("change name by name, at every level of nesting", () => {
    const inForce = { jump: true, legs: { left: 1, right: 2 } };
    expect(mergeActions(inForce, { legs: { left: 3 } })).toEqual({
      jump: true,
      legs: { left: 3, right: 2 },
    });
    expect(mergeActions(inForce, { jump: false })).toEqual({ ...inForce, jump: false });
    expect(mergeActions({ jump: true }, { legs: { left: 3 } })).toEqual({
      jump: true,
      legs: { left: 3 },
    });
    expect(inForce).toEqual({ jump: true, legs: { left: 1, right: 2 } });
  });

  it('are replaced as a whole if they are tensors, but merged if a group merely has actions named "data" or "dtype"', () => {
    const [before, after] = [
      tensor("float32", [2], new Float32Array([1, 2])),
      tensor("float32", [], new Float32Array([3])),
    ];
    expect(mergeActions({ move: before }, { move: after })).toEqual({ move: after });
    expect(mergeActions({ move: before }, { move: after })?.["move"]).toBe(after);
    for (const group of [{ data: 1, dtype: 2 }, { data: 1 }, { dtype: "float32" }]) {
      const inForce = { group: { ...group, other: 4 } };
      expect(mergeActions(inForce, { group: { data: 5 } })).toEqual({
        group: { ...group, other: 4, data: 5 },
      });
    }
  });
});
