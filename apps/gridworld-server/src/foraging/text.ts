// SPDX-License-Identifier: Apache-2.0
import type { Board } from "./board.ts";
import type { Forager } from "./roster.ts";

/**
 * Draws the board in the notation of a layout, one line per row, without a last line break.
 *
 * Levels that the notation cannot express are `@` (an agent above 26) and `+` (food above 9);
 * otherwise the text is a layout of the same board. On a cell that two agents share, the agent that
 * joined later is drawn.
 */
export function drawText(board: Board, foragers: readonly Forager[]): string {
  const rows = Array.from({ length: board.height }, () => Array<string>(board.width).fill("."));
  const put = (row: number, col: number, character: string): void => {
    const line = rows[row];
    if (line !== undefined) {
      line[col] = character;
    }
  };
  for (const { row, col, level } of board.food) {
    if (level > 0) {
      put(row, col, level <= 9 ? String(level) : "+");
    }
  }
  for (const { onBoard, row, col, level } of foragers) {
    if (onBoard) {
      put(row, col, level <= 26 ? String.fromCharCode(96 + level) : "@");
    }
  }
  return rows.map((row) => row.join("")).join("\n");
}
