// SPDX-License-Identifier: Apache-2.0
import type { MutantResult } from "@stryker-mutator/api/core";
import { roomOf } from "./targets.ts";

/** The parts of a mutant's result that are printed. */
export type Result = Pick<
  MutantResult,
  "fileName" | "location" | "mutatorName" | "replacement" | "status"
>;

/** The mutants of a room, counted by what became of them. */
export interface Score {
  readonly room: string;
  /** A test failed. */
  readonly killed: number;
  /** The tests did not end. */
  readonly timedOut: number;
  /** Every test passed. */
  readonly survived: number;
  /** No test ran the line. */
  readonly uncovered: number;
  /** Killed and timed out, in percent of all four. */
  readonly percent: number;
}

/** Counts results by room, sorted by the room's name. */
export function scoresOf(results: readonly Result[]): Score[] {
  const rooms = new Map<string, Result[]>();
  for (const result of results) {
    const room = roomOf(result.fileName);
    rooms.set(room, [...(rooms.get(room) ?? []), result]);
  }
  return [...rooms]
    .map(([room, mutants]) => {
      const count = (status: Result["status"]) =>
        mutants.filter((mutant) => mutant.status === status).length;
      const killed = count("Killed");
      const timedOut = count("Timeout");
      const survived = count("Survived");
      const uncovered = count("NoCoverage");
      const found = killed + timedOut;
      const percent = (100 * found) / Math.max(1, found + survived + uncovered);
      return { room, killed, timedOut, survived, uncovered, percent };
    })
    .sort((a, b) => (a.room < b.room ? -1 : 1));
}

/** Formats scores as the table that a run ends with. */
export function formatScores(scores: readonly Score[]): string {
  const width = Math.max(...scores.map(({ room }) => room.length));
  const row = (...cells: (string | number)[]) =>
    cells
      .map((cell, index) => (index === 0 ? `${cell}`.padEnd(width) : `${cell}`.padStart(11)))
      .join("");
  return [
    row("", "killed", "timed out", "survived", "not run", "score"),
    ...scores.map(({ room, killed, timedOut, survived, uncovered, percent }) =>
      row(room, killed, timedOut, survived, uncovered, `${percent.toFixed(1)} %`),
    ),
  ].join("\n");
}

/**
 * Formats the mutants that no test found, one line each, in the order of the files:
 * `path:line:column  the source → its replacement`.
 *
 * @param readSource Returns the text of a file, by its path from the repository's root.
 */
export function formatSurvivors(
  results: readonly Result[],
  readSource: (fileName: string) => string,
): string {
  return results
    .filter(({ status }) => status === "Survived" || status === "NoCoverage")
    .sort((a, b) =>
      a.fileName === b.fileName
        ? a.location.start.line - b.location.start.line ||
          a.location.start.column - b.location.start.column
        : a.fileName < b.fileName
          ? -1
          : 1,
    )
    .map((mutant) => {
      const { start } = mutant.location;
      const source = oneLine(sourceOf(readSource(mutant.fileName), mutant.location));
      const notRun = mutant.status === "NoCoverage" ? "  (not run)" : "";
      const place = `${mutant.fileName}:${start.line}:${start.column}`;
      return `${place}  ${source} → ${oneLine(mutant.replacement)}${notRun}`;
    })
    .join("\n");
}

/** Cuts a range out of a text; lines and columns count from 1. */
function sourceOf(text: string, { start, end }: Result["location"]): string {
  const lines = text.split("\n").slice(start.line - 1, end.line);
  const last = lines.length - 1;
  lines[last] = lines[last]?.slice(0, end.column - 1) ?? "";
  lines[0] = lines[0]?.slice(start.column - 1) ?? "";
  return lines.join("\n");
}

function oneLine(text: string): string {
  const line = text.replace(/\s+/g, " ");
  return line.length > 80 ? `${line.slice(0, 79)}…` : line;
}
