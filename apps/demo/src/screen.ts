// SPDX-License-Identifier: Apache-2.0
import { stripVTControlCharacters } from "node:util";
import {
  ansiLegend,
  drawAnsiFrame,
  drawPlainFrame,
  plainLegend,
} from "@dm-env-rpc/gridworld-server";
import type { PlacedBoard } from "./boards.ts";

/** The output of a screen, such as `process.stdout`. */
export interface Output {
  readonly isTTY?: boolean;
  /** Defined only by terminals. */
  hasColors?(count: number): boolean;
  readonly columns?: number;
  readonly rows?: number;
  write(text: string): boolean;
}

/** A display of boards. */
export interface Screen {
  /** Explains the signs of a board and the goal of the agents, in two lines. */
  readonly legend: string;
  /** Shows boards with a line below them, unless the previous ones were shown a moment ago. */
  show(boards: readonly PlacedBoard[], status: string): void;
  /** Writes a permanent line above the boards. */
  say(line: string): void;
}

const terminalEveryMs = 100;
const plainEveryMs = 4_000;
const gap = "    ";
const goal = "goal: load food together; the levels of agents beside it add up";

/** Creates a screen. On a terminal it redraws in place, with colours if supported; elsewhere it prints boards now and then. */
export function createScreen(output: Output): Screen {
  const live = output.isTTY === true;
  const colours = live && output.hasColors?.(2 ** 24) === true;
  const draw = colours ? drawAnsiFrame : drawPlainFrame;
  let shownAt = Number.NEGATIVE_INFINITY;
  let height = 0;
  const replace = (text: string): void => {
    output.write(live && height > 0 ? `\u001b[${height}F\u001b[J${text}` : text);
  };
  return {
    legend: `${colours ? ansiLegend : plainLegend}\n${goal}`,
    show(boards, status) {
      const now = performance.now();
      if (now - shownAt < (live ? terminalEveryMs : plainEveryMs)) {
        return;
      }
      shownAt = now;
      const blocks = boards.map(({ title, frame }) => [
        title,
        ...draw(frame).trimEnd().split("\n"),
      ]);
      // Lines that do not fit would scroll away and could not be redrawn.
      const columns = live ? (output.columns ?? 80) : 80;
      const rows = live ? (output.rows ?? 24) - 2 : Number.POSITIVE_INFINITY;
      const lines = [...fitting(blocks, columns, rows), status.slice(0, columns - 1)];
      replace(`${lines.join("\n")}\n`);
      height = lines.length;
    },
    say(line) {
      replace(`${line}\n`);
      height = 0;
    },
  };
}

/** Lays out as many blocks of lines as fit, side by side if possible, else below each other. */
function fitting(
  blocks: readonly (readonly string[])[],
  columns: number,
  rows: number,
): readonly string[] {
  for (let count = blocks.length; count > 0; count--) {
    const some = blocks.slice(0, count);
    for (const lines of [beside(some), some.flat()]) {
      if (lines.length <= rows && lines.every((line) => widthOf(line) < columns)) {
        return lines;
      }
    }
  }
  return [];
}

function beside(blocks: readonly (readonly string[])[]): string[] {
  const widths = blocks.map((lines) => Math.max(...lines.map(widthOf)));
  const height = Math.max(...blocks.map(({ length }) => length));
  return Array.from({ length: height }, (_, row) =>
    blocks
      .map((lines, block) => {
        const line = lines[row] ?? "";
        const isLast = block === blocks.length - 1;
        return isLast ? line : line + " ".repeat((widths[block] ?? 0) - widthOf(line)) + gap;
      })
      .join(""),
  );
}

function widthOf(line: string): number {
  return stripVTControlCharacters(line).length;
}
