// SPDX-License-Identifier: Apache-2.0
import { timeStep } from "@dm-env-rpc/client";
import { foragingActions } from "@dm-env-rpc/gridworld-server";
import { tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { greedyMove, greedyPolicy } from "./greedy.ts";

type Thing = readonly [row: number, col: number, level: number];

/** A time step of the first of the given agents. */
function stepOf(agents: readonly Thing[], food: readonly Thing[]) {
  const [[row, col] = [0, 0]] = agents;
  return timeStep("mid", "running", 0, 1, {
    agents: tensor(
      "int32",
      [agents.length, 4],
      Int32Array.from(agents.flatMap((agent) => [...agent, 1])),
    ),
    food: tensor("int32", [food.length, 3], Int32Array.from(food.flat())),
    position: tensor("int32", [2], Int32Array.of(row, col)),
    step: 1,
  });
}

describe("a greedy agent", () => {
  it.each([
    ["north", [0, 4]],
    ["south", [7, 4]],
    ["west", [4, 0]],
    ["east", [4, 7]],
  ] as const)("walks %s to food", (move, [row, col]) => {
    expect(greedyMove(stepOf([[4, 4, 1]], [[row, col, 1]]))).toBe(foragingActions[move]);
  });

  it("loads food beside it", () => {
    expect(greedyMove(stepOf([[4, 4, 1]], [[4, 5, 3]]))).toBe(foragingActions.load);
  });

  it("prefers food that it can load by itself, and ignores loaded food", () => {
    const food: Thing[] = [
      [4, 5, 3],
      [0, 4, 2],
      [5, 4, 0],
    ];
    expect(greedyMove(stepOf([[4, 4, 2]], food))).toBe(foragingActions.north);
  });

  it("walks around other agents", () => {
    const agents: Thing[] = [
      [0, 0, 1],
      [0, 1, 1],
    ];
    expect(greedyMove(stepOf(agents, [[0, 3, 1]]))).toBe(foragingActions.south);
  });

  it("does not move if it cannot reach any food", () => {
    expect(greedyMove(stepOf([[4, 4, 1]], []))).toBe(foragingActions.none);
  });

  it("acts at random in a tenth of its steps", () => {
    let call = 0;
    const policy = greedyPolicy(() => [0.05, 0.99][call++ % 2] ?? 0);
    expect(policy(stepOf([[4, 4, 1]], [[0, 4, 1]]))).toEqual({ move: foragingActions.load });
  });
});
