// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { markdownTable, short, textTable } from "./table.ts";

it("numbers have three digits", () => {
  expect(
    [0.1234, 4.056, 12.34, 963.2, 1234, 9994, 12_345, 299_400, 999_900, 2.63e6].map(short),
  ).toEqual(["0.12", "4.06", "12.3", "963", "1,234", "9,994", "12.3k", "299k", "1.00M", "2.63M"]);
  expect(short(Number.NaN)).toBe("–");
});

it("a Markdown table has a rule below its head", () => {
  expect(markdownTable(["", "steps"], [["a", "1"]])).toBe("|  | steps |\n|---|---|\n| a | 1 |");
});

it("a table has its names on the left and its figures on the right", () => {
  expect(
    textTable(
      ["", "steps"],
      [
        ["a", "1"],
        ["bcd", "22"],
      ],
    ).split("\n"),
  ).toEqual(["     steps", "──────────", "a        1", "bcd     22"]);
});
