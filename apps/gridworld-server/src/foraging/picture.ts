// SPDX-License-Identifier: Apache-2.0
import type { Board } from "./board.ts";
import {
  agentColour,
  type Colour,
  foodBody,
  foodLeaf,
  ground,
  groundEdge,
  highlight,
  ink,
} from "./palette.ts";
import type { Forager } from "./roster.ts";
import { agentTile, emptyTile, foodTile, type Tile, tileSide, writeLevel } from "./tiles.ts";

/**
 * Draws the whole board: uint8 [height·8, width·8, 3], a tile of 8 by 8 pixels a cell.
 *
 * Agents are rounded squares in the colour of their slot, food is an apple, each with its level.
 * On a cell that two agents share, the agent that joined later is drawn, with the other's colour in its corners.
 */
export function drawPicture(out: Uint8Array, board: Board, foragers: readonly Forager[]): void {
  drawGround(out, board);
  for (const { row, col, level } of board.food) {
    if (level === 0) {
      continue;
    }
    drawTile(out, board.width, row, col, foodTile, foodBody, foodLeaf, groundEdge);
    drawLevel(out, board.width, row, col, level);
  }
  for (const forager of foragers) {
    if (forager.onBoard) {
      drawForager(out, board, foragers, forager, groundEdge);
    }
  }
}

/** Draws bright ground around an agent and the other agents on its cell, in a picture of the whole board. */
export function highlightForager(
  out: Uint8Array,
  board: Board,
  foragers: readonly Forager[],
  self: Forager,
): void {
  for (const forager of foragers) {
    if (self.onBoard && isOn(forager, self.row, self.col)) {
      drawForager(out, board, foragers, forager, highlight);
    }
  }
}

/** Draws empty tiles. Each row of tiles is a copy of the first one. */
function drawGround(out: Uint8Array, { height, width }: Board): void {
  for (let col = 0; col < width; col++) {
    drawTile(out, width, 0, col, emptyTile, ground, groundEdge, groundEdge);
  }
  const rowBytes = width * tileSide * tileSide * 3;
  for (let row = 1; row < height; row++) {
    out.copyWithin(row * rowBytes, 0, rowBytes);
  }
}

function drawForager(
  out: Uint8Array,
  board: Board,
  foragers: readonly Forager[],
  forager: Forager,
  edge: Colour,
): void {
  const { row, col } = forager;
  const under = firstOn(foragers, forager);
  const corner = under === forager ? edge : agentColour(under.slot);
  drawTile(out, board.width, row, col, agentTile, agentColour(forager.slot), corner, edge);
  drawLevel(out, board.width, row, col, forager.level);
}

function firstOn(foragers: readonly Forager[], on: Forager): Forager {
  for (const other of foragers) {
    if (isOn(other, on.row, on.col)) {
      return other;
    }
  }
  return on;
}

function isOn(forager: Forager, row: number, col: number): boolean {
  return forager.onBoard && forager.row === row && forager.col === col;
}

function drawTile(
  out: Uint8Array,
  width: number,
  row: number,
  col: number,
  tile: Tile,
  body: Colour,
  accent: Colour,
  bare: Colour,
): void {
  tile.forEach((line, y) => {
    for (let x = 0; x < tileSide; x++) {
      const mark = line[x];
      const colour = mark === "#" ? body : mark === "^" || mark === "+" ? accent : bare;
      setPixel(out, width, row * tileSide + y, col * tileSide + x, colour);
    }
  });
}

function drawLevel(out: Uint8Array, width: number, row: number, col: number, level: number): void {
  writeLevel(level, (y, x) => {
    setPixel(out, width, row * tileSide + y, col * tileSide + x, ink);
  });
}

function setPixel(out: Uint8Array, width: number, y: number, x: number, colour: Colour): void {
  const at = (y * width * tileSide + x) * 3;
  out[at] = colour[0];
  out[at + 1] = colour[1];
  out[at + 2] = colour[2];
}
