// SPDX-License-Identifier: Apache-2.0
import type { DynamicObservation, TimeStep } from "@dm-env-rpc/client";
import {
  agentFields,
  type FramedAgent,
  type FrameSource,
  foodFields,
} from "@dm-env-rpc/gridworld-server";

/** The size and length of the worlds of the demo. */
export const boardSettings = { height: 8, width: 8, max_steps: 50 };

/** Observations that a board is drawn from. */
export const boardObservations = ["agents", "food", "step", "position", "reward"] as const;

/** An agent on a board. */
export interface BoardAgent {
  readonly name: string;
  /** Reward of its last step. */
  readonly reward: number;
}

/**
 * Makes a frame of the board from one agent's observations.
 *
 * @param known Agents by their row in the observation `agents`.
 */
export function readBoard(
  { observation, state }: TimeStep<DynamicObservation>,
  known: ReadonlyMap<number, BoardAgent>,
): FrameSource {
  const agents = rows(observation["agents"], agentFields);
  const food = rows(observation["food"], foodFields);
  return {
    board: {
      height: boardSettings.height,
      width: boardSettings.width,
      food: food.map(([row = 0, col = 0, level = 0]) => ({ row, col, level })),
    },
    foragers: agents.map(
      ([row = 0, col = 0, level = 0, present = 0], slot): FramedAgent => ({
        row,
        col,
        level,
        slot,
        onBoard: present === 1,
        name: known.get(slot)?.name ?? "agent",
        reward: known.get(slot)?.reward ?? 0,
      }),
    ),
    step: Number(observation["step"]),
    maxSteps: boardSettings.max_steps,
    status: state,
  };
}

/** Returns the row of the observing agent in `agents`, found by its position, which is unique. */
export function slotOf({ observation }: TimeStep<DynamicObservation>): number {
  const [position = []] = rows(observation["position"], 2);
  return rows(observation["agents"], agentFields).findIndex(
    ([row, col, , present]) => present === 1 && row === position[0] && col === position[1],
  );
}

/** Returns the rows of an int32 tensor. */
function rows(value: DynamicObservation[string] | undefined, length: number): number[][] {
  const data = typeof value === "object" && "data" in value ? value.data : undefined;
  if (!(data instanceof Int32Array)) {
    throw new Error("expected an int32 tensor from the gridworld server; is it another version?");
  }
  return Array.from({ length: data.length / length }, (_, row) => [
    ...data.subarray(row * length, (row + 1) * length),
  ]);
}
