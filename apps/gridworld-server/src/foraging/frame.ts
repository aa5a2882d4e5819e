// SPDX-License-Identifier: Apache-2.0
import type { Board } from "./board.ts";
import { agentColour, type Colour, faintInk, foodBody, ground, ink } from "./palette.ts";
import type { Forager } from "./roster.ts";
import type { ForagingStatus } from "./rules.ts";

/** Properties of an agent that a frame shows. */
export type FramedAgent = Pick<
  Forager,
  "onBoard" | "row" | "col" | "level" | "slot" | "name" | "reward"
>;

/** Properties of a board that a frame shows. */
export interface FrameSource {
  readonly board: Pick<Board, "height" | "width" | "food">;
  readonly foragers: readonly FramedAgent[];
  readonly step: number;
  readonly maxSteps: number;
  readonly status: ForagingStatus;
}

/** Writer of a frame's cells, all of one width. */
interface Style {
  readonly agent: (level: number, slot: number, width: number) => string;
  readonly food: (level: number, width: number) => string;
  readonly ground: (width: number) => string;
}

/**
 * Draws a frame of plain text for a log: a headline, the board, a line for each agent.
 *
 * `[2]` is an agent of level 2, `(3)` food of level 3. Each line ends with a line break.
 */
export function drawPlainFrame(source: FrameSource): string {
  return drawFrame(source, plainStyle);
}

const plainStyle: Style = {
  agent: (level, _slot, width) => centre(`[${level}]`, width),
  food: (level, width) => centre(`(${level})`, width),
  ground: (width) => centre(".", width),
};

/** One line that explains the signs of `drawPlainFrame`. */
export const plainLegend = legendOf(plainStyle);

/**
 * Draws a frame for a terminal with 24-bit colour: agents in the colour of their slot, food red.
 *
 * It neither moves the cursor nor clears the screen.
 */
export function drawAnsiFrame(source: FrameSource): string {
  return drawFrame(source, ansiStyle);
}

const ansiStyle: Style = {
  agent: (level, slot, width) => paint(centre(String(level), width), ink, agentColour(slot)),
  food: (level, width) => paint(centre(String(level), width), ink, foodBody),
  ground: (width) => paint(centre("·", width), faintInk, ground),
};

/** One line that explains the signs of `drawAnsiFrame`. */
export const ansiLegend = legendOf(ansiStyle);

function legendOf({ agent, food }: Style): string {
  return `${agent(2, 0, 3)} an agent of level 2   ${food(3, 3)} food of level 3`;
}

function drawFrame({ board, foragers, step, maxSteps, status }: FrameSource, style: Style): string {
  const width = cellWidth(board, foragers);
  const empty = style.ground(width);
  const rows = Array.from({ length: board.height }, () => Array<string>(board.width).fill(empty));
  const put = (row: number, col: number, cell: string): void => {
    const line = rows[row];
    if (line !== undefined) {
      line[col] = cell;
    }
  };
  let left = 0;
  for (const { row, col, level } of board.food) {
    if (level === 0) {
      continue;
    }
    left++;
    put(row, col, style.food(level, width));
  }
  const agents: string[] = [];
  for (const { onBoard, row, col, level, slot, name, reward } of foragers) {
    if (!onBoard) {
      agents.push(`${centre("-", width)} ${printable(name)}  off the board`);
      continue;
    }
    const badge = style.agent(level, slot, width);
    put(row, col, badge);
    agents.push(
      `${badge} ${printable(name)}  at ${row},${col}  reward ${Number(reward.toFixed(3))}`,
    );
  }
  const headline = `step ${step}/${maxSteps}  ${status}  food ${left} of ${board.food.length}`;
  return `${[headline, ...rows.map((row) => row.join("")), ...agents].join("\n")}\n`;
}

/**
 * Returns the width of a cell: the longest level on the board and a character on each side of it.
 */
function cellWidth(board: FrameSource["board"], foragers: readonly FramedAgent[]): number {
  let highest = 0;
  for (const { level } of board.food) {
    highest = Math.max(highest, level);
  }
  for (const { level, onBoard } of foragers) {
    if (onBoard) {
      highest = Math.max(highest, level);
    }
  }
  return String(highest).length + 2;
}

function centre(text: string, width: number): string {
  return text.padStart(Math.ceil((width + text.length) / 2)).padEnd(width);
}

function paint(text: string, foreground: Colour, background: Colour): string {
  return `\u001b[38;2;${foreground.join(";")};48;2;${background.join(";")}m${text}\u001b[0m`;
}

/** Names come from clients: control characters in them could control the terminal. */
function printable(name: string): string {
  return name.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "?");
}
