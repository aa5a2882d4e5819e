// SPDX-License-Identifier: Apache-2.0
import { type Board, changeOccupants, type Food } from "./board.ts";
import type { Forager } from "./roster.ts";
import type { ForagingSettings } from "./settings.ts";

/** Names the actions: what an agent may do in a tick, and the number that says so. */
export const foragingActions = {
  none: 0,
  north: 1,
  south: 2,
  west: 3,
  east: 4,
  load: 5,
} as const;

/** Tells whether a sequence runs, ended with its food (terminated), or at its limit (interrupted). */
export type ForagingStatus = "running" | "terminated" | "interrupted";

/**
 * Turns an agent's action into the cell it claims and whether it loads, by the board as it is.
 *
 * A move off the grid or into food becomes none. So does a load with no food beside, of
 * itself: either claims the agent's own cell, and there is nothing to count it for.
 */
export function declare(board: Board, forager: Forager, action: number): void {
  const { row, col } = forager;
  let toRow = row;
  let toCol = col;
  if (action === foragingActions.north) {
    toRow--;
  } else if (action === foragingActions.south) {
    toRow++;
  } else if (action === foragingActions.west) {
    toCol--;
  } else if (action === foragingActions.east) {
    toCol++;
  }
  const open = isInside(board, toRow, toCol) && foodLevelAt(board, toRow, toCol) === 0;
  forager.destination = open ? toRow * board.width + toCol : row * board.width + col;
  forager.loading = action === foragingActions.load;
}

/**
 * Plays one tick of what every agent on the board has declared: first moves, then loads.
 *
 * Sets each agent's reward, rounded once to float32. Allocates nothing. Source: the step of
 * Level-Based Foraging (Papoudakis et al. 2021). Where food stands so close that an agent
 * can load two at once, which only a layout does, it counts for each of them.
 */
export function playTick(
  board: Board,
  foragers: readonly Forager[],
  settings: ForagingSettings,
): void {
  move(board, foragers);
  for (const forager of foragers) {
    forager.reward = 0;
  }
  for (const food of board.food) {
    if (food.level > 0) {
      load(board, food, foragers, settings);
    }
  }
  for (const forager of foragers) {
    forager.reward = Math.fround(forager.reward);
  }
}

/** Tells how a sequence stands after `step` ticks; food that runs out comes before the limit. */
export function statusAfter(board: Board, step: number, maxSteps: number): ForagingStatus {
  if (!board.food.some((food) => food.level > 0)) {
    return "terminated";
  }
  return step >= maxSteps ? "interrupted" : "running";
}

/**
 * Moves whoever claims a cell alone.
 *
 * A cell's occupant that fails to leave has claimed another cell, so whoever enters still
 * claims it alone: then two stand on one cell, as in the reference.
 */
function move(board: Board, foragers: readonly Forager[]): void {
  const { claims, width } = board;
  for (const { onBoard, destination } of foragers) {
    if (onBoard) {
      claims[destination] = (claims[destination] ?? 0) + 1;
    }
  }
  for (const forager of foragers) {
    if (!forager.onBoard || claims[forager.destination] !== 1) {
      continue;
    }
    changeOccupants(board, forager, -1);
    forager.row = Math.floor(forager.destination / width);
    forager.col = forager.destination % width;
    changeOccupants(board, forager, 1);
  }
  for (const { destination } of foragers) {
    claims[destination] = 0;
  }
}

function load(
  board: Board,
  food: Food,
  foragers: readonly Forager[],
  settings: ForagingSettings,
): void {
  let strength = 0;
  for (const forager of foragers) {
    if (loads(forager, food)) {
      strength += forager.level;
    }
  }
  if (strength === 0) {
    return;
  }
  const loaded = strength >= food.level;
  const worth = settings.normalizeReward ? strength * board.foodTotal : 1;
  for (const forager of foragers) {
    if (!loads(forager, food)) {
      continue;
    }
    forager.reward += loaded ? (food.level * forager.level) / worth : -settings.penalty;
  }
  if (!loaded) {
    return;
  }
  food.level = 0;
  board.foodLevels[food.row * board.width + food.col] = 0;
}

function loads(forager: Forager, food: Food): boolean {
  return (
    forager.onBoard &&
    forager.loading &&
    Math.abs(forager.row - food.row) + Math.abs(forager.col - food.col) === 1
  );
}

function foodLevelAt(board: Board, row: number, col: number): number {
  return isInside(board, row, col) ? (board.foodLevels[row * board.width + col] ?? 0) : 0;
}

function isInside(board: Board, row: number, col: number): boolean {
  return row >= 0 && row < board.height && col >= 0 && col < board.width;
}
