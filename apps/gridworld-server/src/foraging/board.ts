// SPDX-License-Identifier: Apache-2.0
import { ForagingError } from "./errors.ts";
import type { Layout } from "./layout.ts";
import { drawInteger, type Random } from "./random.ts";
import type { Forager } from "./roster.ts";
import type { ForagingSettings } from "./settings.ts";

const foodAttempts = 1_000;

/** One food of the sequence; its level is 0 once it is gone. */
export interface Food {
  readonly row: number;
  readonly col: number;
  level: number;
}

/** The grid and what stands on it; a cell is row · width + col. */
export interface Board {
  readonly height: number;
  readonly width: number;
  /** Food level of each cell, 0 for none. */
  readonly foodLevels: Uint8Array;
  /** Number of agents on each cell. */
  readonly occupants: Uint16Array;
  /** Scratch of one tick: number of agents that claim each cell; zeros between ticks. */
  readonly claims: Uint16Array;
  /** The sequence's food in the order it was drawn, gone or not. */
  readonly food: Food[];
  /** Total level of the food at the start of the sequence. */
  foodTotal: number;
}

/** Creates an empty board. */
export function createBoard(height: number, width: number): Board {
  const cells = height * width;
  return {
    height,
    width,
    foodLevels: new Uint8Array(cells),
    occupants: new Uint16Array(cells),
    claims: new Uint16Array(cells),
    food: [],
    foodTotal: 0,
  };
}

/**
 * Puts new food and agents on an empty board: from the layout if given, otherwise drawn at random.
 *
 * Without a layout, each agent's cell and level are drawn first, then the food. With a layout its
 * food is placed first, then its agents in reading order; further agents appear on random empty
 * cells.
 */
export function populate(
  board: Board,
  foragers: readonly Forager[],
  settings: ForagingSettings,
  layout: Layout | undefined,
  random: Random,
): void {
  board.foodLevels.fill(0);
  board.food.length = 0;
  if (layout === undefined) {
    for (const forager of foragers) {
      placeAtRandom(board, forager, settings, random);
    }
    drawFood(board, foragers, settings, random);
  } else {
    for (const { row, col, level } of layout.food) {
      putFood(board, row, col, level);
    }
    foragers.forEach((forager, index) => {
      const drawn = layout.agents[index];
      if (drawn === undefined) {
        placeAtRandom(board, forager, settings, random);
      } else {
        place(board, forager, drawn.row, drawn.col, drawn.level);
      }
    });
  }
  board.foodTotal = board.food.reduce((total, { level }) => total + level, 0);
}

/**
 * Puts an agent on a uniformly drawn empty cell with a drawn level; draws two numbers.
 *
 * An agent that is on the board is removed first, so its cell may be drawn again. The level is
 * drawn even if the agent brings its own, so that its level does not change other agents' cells.
 *
 * @throws {ForagingError} `board-full`: agents or food occupy every cell; nothing changed.
 */
export function placeAtRandom(
  board: Board,
  forager: Forager,
  settings: ForagingSettings,
  random: Random,
): void {
  const wasOnBoard = forager.onBoard;
  if (wasOnBoard) {
    changeOccupants(board, forager, -1);
  }
  const empty = countEmptyCells(board);
  if (empty === 0) {
    if (wasOnBoard) {
      changeOccupants(board, forager, 1);
    }
    throw new ForagingError(
      "board-full",
      `expected an empty cell on the ${board.height} by ${board.width} board, received none; wait until an agent leaves or food is loaded, or create a larger board`,
    );
  }
  const cell = nthEmptyCell(board, drawInteger(random, 0, empty - 1));
  const level = drawInteger(random, 1, settings.maxAgentLevel);
  place(board, forager, Math.floor(cell / board.width), cell % board.width, level);
}

/** Takes an agent off the board and clears its reward; has no effect if it is not there. */
export function lift(board: Board, forager: Forager): void {
  if (!forager.onBoard) {
    return;
  }
  changeOccupants(board, forager, -1);
  forager.onBoard = false;
  forager.reward = 0;
}

/** Adds `by` to the number of occupants of the agent's cell. */
export function changeOccupants(board: Board, forager: Forager, by: 1 | -1): void {
  const cell = forager.row * board.width + forager.col;
  board.occupants[cell] = (board.occupants[cell] ?? 0) + by;
}

function place(board: Board, forager: Forager, row: number, col: number, level: number): void {
  forager.onBoard = true;
  forager.row = row;
  forager.col = col;
  forager.level = forager.fixedLevel ?? level;
  forager.reward = 0;
  changeOccupants(board, forager, 1);
}

function countEmptyCells({ foodLevels, occupants }: Board): number {
  let empty = 0;
  for (let cell = 0; cell < occupants.length; cell++) {
    if (occupants[cell] === 0 && foodLevels[cell] === 0) {
      empty++;
    }
  }
  return empty;
}

function nthEmptyCell({ foodLevels, occupants }: Board, index: number): number {
  let cell = 0;
  for (let left = index; ; cell++) {
    if (occupants[cell] !== 0 || foodLevels[cell] !== 0) {
      continue;
    }
    if (left-- === 0) {
      return cell;
    }
  }
}

/** Draws food by rejection: never on the border or on an agent, and at a distance from other food. */
function drawFood(
  board: Board,
  foragers: readonly Forager[],
  settings: ForagingSettings,
  random: Random,
): void {
  const highest = settings.maxFoodLevel === 0 ? sumOfThreeLowest(foragers) : settings.maxFoodLevel;
  // If the agents cannot load food of min_food_level, food has the highest level that they can load.
  const lowest = settings.cooperative ? highest : Math.min(settings.minFoodLevel, highest);
  for (let attempt = 0; attempt < foodAttempts && board.food.length < settings.food; attempt++) {
    const row = drawInteger(random, 1, board.height - 2);
    const col = drawInteger(random, 1, board.width - 2);
    if (!isFreeForFood(board, row, col)) {
      continue;
    }
    putFood(board, row, col, drawInteger(random, lowest, highest));
  }
}

function isFreeForFood(board: Board, row: number, col: number): boolean {
  if (board.occupants[row * board.width + col] !== 0) {
    return false;
  }
  return !board.food.some((food) => {
    const rows = Math.abs(food.row - row);
    const cols = Math.abs(food.col - col);
    return (rows <= 1 && cols <= 1) || (rows === 0 && cols <= 2) || (cols === 0 && rows <= 2);
  });
}

function putFood(board: Board, row: number, col: number, level: number): void {
  board.food.push({ row, col, level });
  board.foodLevels[row * board.width + col] = level;
}

function sumOfThreeLowest(foragers: readonly Forager[]): number {
  return foragers
    .map((forager) => forager.level)
    .sort((a, b) => a - b)
    .slice(0, 3)
    .reduce((sum, level) => sum + level, 0);
}
