// SPDX-License-Identifier: Apache-2.0

/** The pixels along a side of a cell's tile. */
export const tileSide = 8;

/** A tile's shape, 8 rows of 8: `#` body, `^` leaf, `+` corner, anything else bare ground. */
export type Tile = readonly string[];

/** An agent: a rounded square, a pixel short of the tile so that neighbours stay apart. */
export const agentTile: Tile = [
  "+#####+.",
  "#######.",
  "#######.",
  "#######.",
  "#######.",
  "#######.",
  "+#####+.",
  "........",
];

/** Food: an apple with its leaf. */
export const foodTile: Tile = [
  "...^^...",
  ".#####..",
  "#######.",
  "#######.",
  "#######.",
  ".#####..",
  "..#.#...",
  "........",
];

/** An empty cell. */
export const emptyTile: Tile = [
  "#######.",
  "#######.",
  "#######.",
  "#######.",
  "#######.",
  "#######.",
  "#######.",
  "........",
];

/** The shapes of the digits 0…9, each 5 rows of 3. */
const digits: readonly (readonly string[])[] = [
  ["###", "#.#", "#.#", "#.#", "###"],
  [".#.", "##.", ".#.", ".#.", "###"],
  ["###", "..#", "###", "#..", "###"],
  ["###", "..#", ".##", "..#", "###"],
  ["#.#", "#.#", "###", "..#", "..#"],
  ["###", "#..", "###", "..#", "###"],
  ["###", "#..", "###", "#.#", "###"],
  ["###", "..#", "..#", ".#.", ".#."],
  ["###", "#.#", "###", "#.#", "###"],
  ["###", "#.#", "###", "..#", "###"],
];

/**
 * Calls `dot` for each pixel of a level's writing on a tile.
 *
 * One digit stands in the middle, two side by side; each hundred is a dot below them, so
 * that every level to 255 can be read.
 */
export function writeLevel(level: number, dot: (row: number, col: number) => void): void {
  const rest = level % 100;
  if (level < 10) {
    writeDigit(level, 2, dot);
  } else {
    writeDigit(Math.floor(rest / 10), 0, dot);
    writeDigit(rest % 10, 4, dot);
  }
  for (let hundred = 0; hundred < Math.floor(level / 100); hundred++) {
    dot(6, 2 + 2 * hundred);
  }
}

function writeDigit(digit: number, left: number, dot: (row: number, col: number) => void): void {
  digits[digit]?.forEach((line, row) => {
    for (let col = 0; col < line.length; col++) {
      if (line[col] === "#") {
        dot(row + 1, left + col);
      }
    }
  });
}
