// SPDX-License-Identifier: Apache-2.0
import { timeStep } from "@dm-env-rpc/client";
import { tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { readBoard } from "./board.ts";
import { readFlags } from "./flags.ts";
import { createScreen } from "./screen.ts";

const observation = {
  agents: tensor("int32", [2, 4], Int32Array.of(1, 2, 3, 1, 0, 0, 0, 0)),
  food: tensor("int32", [2, 3], Int32Array.of(4, 5, 2, 0, 0, 0)),
  step: 7,
};

describe("the board", () => {
  it("is read from what one agent observes", () => {
    const frame = readBoard(timeStep("mid", "running", 0, 1, observation), [0.5]);
    expect(frame).toMatchObject({ step: 7, maxSteps: 50, status: "running" });
    expect(frame.board.food).toEqual([
      { row: 4, col: 5, level: 2 },
      { row: 0, col: 0, level: 0 },
    ]);
    expect(frame.foragers).toMatchObject([
      { slot: 0, row: 1, col: 2, level: 3, onBoard: true, reward: 0.5 },
      { slot: 1, onBoard: false, reward: 0 },
    ]);
  });

  it("refuses what is not gridworld's", () => {
    const other = timeStep("mid", "running", 0, 1, { ...observation, agents: 3 });
    expect(() => readBoard(other, [])).toThrow(/expected an int32 tensor/);
  });
});

describe("the screen", () => {
  const show = (isTTY: boolean, colours: boolean, frames: number): string => {
    let written = "";
    const output = {
      isTTY,
      hasColors: () => colours,
      write: (text: string) => {
        written += text;
        return true;
      },
    };
    const screen = createScreen(output);
    const frame = readBoard(timeStep("mid", "running", 0, 1, observation), []);
    for (let i = 0; i < frames; i++) screen.show(frame, "a line below");
    return written;
  };

  it("has colours where the terminal has them, and plain frames where it has not", () => {
    expect(show(true, true, 1)).toContain("\u001b[38;2;");
    expect(show(true, false, 1)).toContain("[3]");
    expect(show(false, false, 1)).toMatch(/^step 7\/50[\s\S]*a line below\n$/);
    expect(show(false, false, 1)).not.toContain("\u001b");
  });

  it("shows no frame too soon after the last", () => {
    expect(show(true, true, 5)).toBe(show(true, true, 1));
  });
});

describe("the flags", () => {
  it("give about as long to look at, whatever the number of steps", () => {
    expect(readFlags([])).toMatchObject({ steps: 200, pauseMs: 100 });
    expect(readFlags(["--steps", "2000"])).toMatchObject({ steps: 2000, pauseMs: 10 });
    expect(readFlags(["--forever"])).toMatchObject({
      steps: Number.POSITIVE_INFINITY,
      pauseMs: 100,
    });
  });

  it.each([
    ["--steps", "0"],
    ["--steps", "ten"],
    ["--stpes", "3"],
  ])("refuse %s %s", (...args) => {
    expect(() => readFlags(args)).toThrow(new RegExp(args[0] ?? ""));
  });
});
