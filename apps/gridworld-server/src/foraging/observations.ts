// SPDX-License-Identifier: Apache-2.0
import type { Board } from "./board.ts";
import type { Forager } from "./roster.ts";

/** Numbers per cell of the grid: agent level, food level, accessible, self. */
export const gridChannels = 4;

/** Numbers per agent in `agents`: row, col, level, present. */
export const agentFields = 4;

/** Numbers per food in `food`: row, col, level. */
export const foodFields = 3;

/**
 * Writes an agent's view: uint8 [2·sight+1, 2·sight+1, 4], with the agent in the centre.
 *
 * A cell that two agents share has the level of the agent that joined later, as in the reference,
 * even in the centre. Cells off the board are 0.
 */
export function writeGrid(
  out: Uint8Array,
  board: Board,
  foragers: readonly Forager[],
  self: Forager,
  sight: number,
): void {
  const side = 2 * sight + 1;
  const top = self.row - sight;
  const left = self.col - sight;
  const lastRow = Math.min(board.height - 1, self.row + sight);
  const firstCol = Math.max(0, left);
  const lastCol = Math.min(board.width - 1, self.col + sight);
  out.fill(0);
  for (let row = Math.max(0, top); row <= lastRow; row++) {
    let cell = row * board.width + firstCol;
    let at = ((row - top) * side + firstCol - left) * gridChannels;
    for (let col = firstCol; col <= lastCol; col++, cell++, at += gridChannels) {
      const level = board.foodLevels[cell] ?? 0;
      if (level === 0) {
        out[at + 2] = 1;
      } else {
        out[at + 1] = level;
      }
    }
  }
  for (const forager of foragers) {
    const row = forager.row - top;
    const col = forager.col - left;
    if (!forager.onBoard || row < 0 || row >= side || col < 0 || col >= side) {
      continue;
    }
    const at = (row * side + col) * gridChannels;
    out[at] = forager.level;
    out[at + 2] = 0;
  }
  out[(sight * side + sight) * gridChannels + 3] = 1;
}

/** Writes every agent by its slot: int32 [max_agents, 4], zeros for an agent off the board. */
export function writeAgents(out: Int32Array, foragers: readonly Forager[]): void {
  out.fill(0);
  for (const { onBoard, slot, row, col, level } of foragers) {
    if (!onBoard) {
      continue;
    }
    const at = slot * agentFields;
    out[at] = row;
    out[at + 1] = col;
    out[at + 2] = level;
    out[at + 3] = 1;
  }
}

/** Writes all food in the order it was drawn: int32 [food, 3], zeros for loaded food. */
export function writeFood(out: Int32Array, board: Board): void {
  out.fill(0);
  let at = 0;
  for (const { row, col, level } of board.food) {
    if (level > 0) {
      out[at] = row;
      out[at + 1] = col;
      out[at + 2] = level;
    }
    at += foodFields;
  }
}
