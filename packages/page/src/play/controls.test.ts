// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { ControlSchema } from "@dm-env-rpc/protocol/spectator";
import { legalActions, t, tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, test } from "vitest";
import { controlsOf, isLegal, merge, place } from "./controls.ts";

const move = t.int8({ min: -1, max: 2 });

describe("controls", () => {
  test("of discrete actions are a button for each value, and digits are the keys of the first action", () => {
    const { choices, fields } = controlsOf(
      { move, aim: { height: t.uint8({ min: 0, max: 1 }) } },
      [],
    );
    expect(fields).toEqual([]);
    expect(choices.map(({ key, label, actions }) => [key, label, actions])).toEqual([
      ["0", "move -1", { move: -1 }],
      ["1", "move 0", { move: 0 }],
      ["2", "move 1", { move: 1 }],
      ["3", "move 2", { move: 2 }],
      [undefined, "aim.height 0", { aim: { height: 0 } }],
      [undefined, "aim.height 1", { aim: { height: 1 } }],
    ]);
  });

  test("of scalars with too many values for buttons are fields; arrays have no controls", () => {
    const actions = {
      speed: t.float32({ min: 0, max: 2 }),
      honk: t.bool(),
      say: t.string(),
      count: t.int32({ min: 0, max: 1_000 }),
      path: t.float32([3]),
    };
    expect(controlsOf(actions, []).fields).toEqual([
      { name: "speed", kind: "number", min: 0, max: 2, isWhole: false },
      { name: "honk", kind: "switch", min: undefined, max: undefined, isWhole: false },
      { name: "say", kind: "text", min: undefined, max: undefined, isWhole: false },
      { name: "count", kind: "number", min: 0, max: 1_000, isWhole: true },
    ]);
  });

  test("that the world declares come first, followed by controls from the specs of its other actions", () => {
    const control = (key: string, label: string, value: number) =>
      create(ControlSchema, { key, label, actions: { move: value } });
    const given = [control("ArrowUp", "Up", 1), control("", "Stay", 0)];
    const { choices, idle, fields } = controlsOf({ move, honk: t.bool() }, given);
    expect(choices).toEqual([
      { key: "ArrowUp", label: "Up", actions: { move: 1 } },
      { key: undefined, label: "Stay", actions: { move: 0 } },
    ]);
    expect(idle).toEqual({ move: 0 });
    expect(fields.map(({ name }) => name)).toEqual(["honk"]);
  });

  test("are legal if the mask of the only discrete action permits it", () => {
    const { choices } = controlsOf({ move }, []);
    const mask = tensor("bool", [4], Uint8Array.of(1, 0, 0, 1));
    const legal = choices.filter((choice) => isLegal(choice, { move }, { legal_actions: mask }));
    expect(legal.map(({ actions }) => actions)).toEqual([{ move: -1 }, { move: 2 }]);
    expect(legalActions(move).shape).toEqual([4]);
  });

  test("are legal if the mask of their discrete action permits it, or if it has no mask", () => {
    const specs = { move, aim: { height: t.uint8({ min: 0, max: 1 }) } };
    const { choices } = controlsOf(specs, []);
    const masks = { aim: { height: tensor("bool", [2], Uint8Array.of(0, 1)) } };
    const legal = choices.filter((choice) => isLegal(choice, specs, { legal_actions: masks }));
    expect(legal).toHaveLength(5);
    expect(choices.every((choice) => isLegal(choice, specs, {}))).toBe(true);
  });
});

test("actions are merged value by value, even nested values", () => {
  const merged = merge(merge(place("aim.height", 1), place("aim.width", 2)), { move: 3 });
  expect(merged).toEqual({ aim: { height: 1, width: 2 }, move: 3 });
});
