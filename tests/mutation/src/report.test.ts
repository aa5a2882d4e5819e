// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { formatScores, formatSurvivors, type Result, scoresOf } from "./report.ts";

const mutant = (fileName: string, line: number, status: Result["status"]): Result => ({
  fileName,
  location: { start: { line, column: 5 }, end: { line, column: 10 } },
  mutatorName: "EqualityOperator",
  replacement: "a <=\n b",
  status,
});

describe("the report of a mutation test", () => {
  const turns = "packages/server/src/clocks/turns.ts";
  const results = [
    mutant("packages/server/src/index.ts", 1, "Killed"),
    mutant(turns, 3, "Survived"),
    mutant(turns, 2, "NoCoverage"),
    mutant(turns, 1, "Killed"),
    mutant(turns, 4, "Timeout"),
    mutant(turns, 5, "Ignored"),
  ];

  it("scores each room by the share of its changes that a test found", () => {
    expect(scoresOf(results)).toEqual([
      { room: "server", killed: 1, timedOut: 0, survived: 0, uncovered: 0, percent: 100 },
      { room: "server/clocks", killed: 1, timedOut: 1, survived: 1, uncovered: 1, percent: 50 },
    ]);
    expect(formatScores(scoresOf(results)).split("\n")[2]).toMatch(/^server\/clocks .* 50\.0 %$/);
  });

  it("lists each change that no test found, with its place and the changed source", () => {
    const source = "if (a < b) {\n".repeat(5);
    expect(formatSurvivors(results, () => source).split("\n")).toEqual([
      `${turns}:2:5  a < b → a <= b  (not run)`,
      `${turns}:3:5  a < b → a <= b`,
    ]);
  });
});
