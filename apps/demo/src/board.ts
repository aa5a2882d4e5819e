// SPDX-License-Identifier: Apache-2.0
import type { DynamicObservation, TimeStep } from "@dm-env-rpc/client";
import {
  agentFields,
  type FramedAgent,
  type FrameSource,
  foodFields,
} from "@dm-env-rpc/gridworld-server";

/** The size and length of the world that the demo creates. */
export const boardSettings = { height: 8, width: 8, max_steps: 50 };

/**
 * What a frame of the board shows, read from what one agent observes.
 *
 * @param rewards Of the last step, by the agents' rows in `agents`.
 */
export function readBoard(
  { observation, state }: TimeStep<DynamicObservation>,
  rewards: readonly number[],
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
        name: `agent ${slot}`,
        reward: rewards[slot] ?? 0,
      }),
    ),
    step: Number(observation["step"]),
    maxSteps: boardSettings.max_steps,
    status: state,
  };
}

/** The rows of an int32 tensor of rank 2. */
function rows(value: DynamicObservation[string] | undefined, length: number): number[][] {
  const data = typeof value === "object" && "data" in value ? value.data : undefined;
  if (!(data instanceof Int32Array)) {
    throw new Error("expected an int32 tensor from the gridworld server; is it another version?");
  }
  return Array.from({ length: data.length / length }, (_, row) => [
    ...data.subarray(row * length, (row + 1) * length),
  ]);
}
