// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { parseLayout } from "./layout.ts";
import { maxLayoutLength } from "./limits.ts";
import { resolveSettings } from "./settings.ts";
import { expectRefusal } from "./testing.ts";

describe("parseLayout", () => {
  it("reads agents and food in reading order with their levels", () => {
    expect(parseLayout("b.1\n.9z")).toEqual({
      height: 2,
      width: 3,
      agents: [
        { row: 0, col: 0, level: 2 },
        { row: 1, col: 2, level: 26 },
      ],
      food: [
        { row: 0, col: 2, level: 1 },
        { row: 1, col: 1, level: 9 },
      ],
    });
  });

  it("ignores the blanks of a template literal and of Windows line ends", () => {
    expect(
      parseLayout(`
        a.
        .1
      `),
    ).toEqual(parseLayout("a.\r\n.1\r\n"));
  });

  it("names the row and column of a character it does not know", () => {
    expectRefusal(() => parseLayout("...\n.a?"), "invalid-layout", "row 1, column 2", '"?"');
    expectRefusal(() => parseLayout("A.."), "invalid-layout", "row 0, column 0", '"A"');
    expectRefusal(() => parseLayout("..0"), "invalid-layout", "row 0, column 2", '"0"');
    expectRefusal(() => parseLayout(".🍎."), "invalid-layout", "row 0, column 1", '"🍎"');
  });

  it("names the row that is not as long as the first", () => {
    expectRefusal(() => parseLayout("...\n..\n..."), "invalid-layout", "row 1", "3", "received 2");
    expectRefusal(() => parseLayout("...\n\n..."), "invalid-layout", "row 1", "received 0");
  });

  it("refuses a blank drawing and one with too long a side", () => {
    expectRefusal(() => parseLayout(" \n "), "invalid-layout", "blank");
    expectRefusal(() => parseLayout(".".repeat(129)), "invalid-layout", "128", "129");
    expectRefusal(() => parseLayout(".\n".repeat(129)), "invalid-layout", "128", "129");
  });

  it("refuses a long text before it is split into lines", () => {
    const most = maxLayoutLength;
    expect(parseLayout("a".padEnd(most))).toMatchObject({ width: 1, height: 1 });
    for (const text of ["a".padEnd(most + 1), "".padEnd(most + 1), "a\n".repeat(most)]) {
      const refused = [() => parseLayout(text), () => resolveSettings({ layout: text })];
      for (const call of refused) {
        expectRefusal(call, "invalid-layout", `at most ${most} characters`, `${text.length}`);
      }
    }
  });
});
