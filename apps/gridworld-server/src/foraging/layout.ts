// SPDX-License-Identifier: Apache-2.0
import { ForagingError } from "./errors.ts";
import { maxLayoutLength, maxSide } from "./limits.ts";

/** An agent or food of a drawing: its cell and its level, 1 or more. */
export interface LayoutItem {
  readonly row: number;
  readonly col: number;
  readonly level: number;
}

/** A parsed drawing of the board; agents and food are in reading order. */
export interface Layout {
  readonly height: number;
  readonly width: number;
  readonly agents: readonly LayoutItem[];
  readonly food: readonly LayoutItem[];
}

/**
 * Parses a drawing of the board, one line per row, north first.
 *
 * `.` is an empty cell, `a`…`z` an agent of level 1…26, `1`…`9` food of that level. Blanks around a
 * line and empty lines before and after the drawing are ignored, so that it can be a template
 * literal. Messages count rows and columns from 0, beginning at the first cell of the drawing.
 *
 * @throws {ForagingError} `invalid-layout`: a text longer than {@link maxLayoutLength}, an empty drawing, lines of
 *   different lengths, a side beyond {@link maxSide}, or an unknown character; it names the place.
 */
export function parseLayout(text: string): Layout {
  if (text.length > maxLayoutLength) {
    throw invalid(
      `expected at most ${maxLayoutLength} characters, received ${text.length}; draw a smaller board, or indent it less`,
    );
  }
  const lines = text
    .trim()
    .split("\n")
    .map((line) => line.trim());
  const width = [...(lines[0] ?? "")].length;
  if (width === 0) {
    throw invalid("expected a drawing of the board, received a blank string; draw at least a cell");
  }
  if (lines.length > maxSide || width > maxSide) {
    throw invalid(
      `expected at most ${maxSide} rows and columns, received ${lines.length} rows of ${width}; draw a smaller board`,
    );
  }
  const agents: LayoutItem[] = [];
  const food: LayoutItem[] = [];
  lines.forEach((line, row) => {
    const characters = [...line];
    if (characters.length !== width) {
      throw invalid(
        `row ${row}: expected ${width} columns as in row 0, received ${characters.length}; draw a rectangle`,
      );
    }
    characters.forEach((character, col) => {
      if (/^[a-z]$/.test(character)) {
        agents.push({ row, col, level: character.charCodeAt(0) - 96 });
      } else if (/^[1-9]$/.test(character)) {
        food.push({ row, col, level: Number(character) });
      } else if (character !== ".") {
        throw invalid(
          `row ${row}, column ${col}: expected '.', an agent 'a'…'z' or food '1'…'9', received ${JSON.stringify(character)}; replace it`,
        );
      }
    });
  });
  return { height: lines.length, width, agents, food };
}

function invalid(message: string): ForagingError {
  return new ForagingError("invalid-layout", `layout: ${message}`);
}
