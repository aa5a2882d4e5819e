// SPDX-License-Identifier: Apache-2.0
import { type Board, changeOccupants, type Food } from "./board.ts";
import type { Forager } from "./roster.ts";
import type { ForagingSettings } from "./settings.ts";

/** Actions of an agent by name, with their numbers. */
export const foragingActions = {
  none: 0,
  north: 1,
  south: 2,
  west: 3,
  east: 4,
  load: 5,
} as const;

/**
 * Status of a sequence: running, ended because its food is loaded (terminated), or at its limit
 * (interrupted).
 */
export type ForagingStatus = "running" | "terminated" | "interrupted";

/**
 * Sets the cell that an agent claims and its load flag from its action and the current board.
 *
 * An agent whose move would leave the grid or enter food claims its own cell, as does an agent that
 * loads or does nothing.
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
 * Plays one tick with the declared actions of all agents on the board: first moves, then loads.
 *
 * Sets each agent's reward, rounded once to float32. Allocates nothing. Source: the step of
 * Level-Based Foraging (Papoudakis et al. 2021). If an agent is next to two foods, which only a
 * layout can produce, its load counts for both.
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

/**
 * Returns the status of a sequence after `step` ticks; loading the last food takes precedence over
 * the limit.
 */
export function statusAfter(board: Board, step: number, maxSteps: number): ForagingStatus {
  if (!board.food.some((food) => food.level > 0)) {
    return "terminated";
  }
  return step >= maxSteps ? "interrupted" : "running";
}

/**
 * Moves each agent that is the only one to claim a cell.
 *
 * An agent that fails to leave its cell has claimed another one, so the agent that enters is still
 * the only claimant: then two share one cell, as in the reference.
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
