// SPDX-License-Identifier: Apache-2.0
import { timeStep } from "@dm-env-rpc/client";
import { tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { readBoard } from "./board.ts";
import { createBoards } from "./boards.ts";
import { readFlags } from "./flags.ts";
import { createScreen, type Output } from "./screen.ts";

const observation = {
  agents: tensor("int32", [2, 4], Int32Array.of(1, 2, 3, 1, 3, 4, 1, 1)),
  food: tensor("int32", [2, 3], Int32Array.of(4, 5, 2, 0, 0, 0)),
  step: 7,
};

const step = ({ position = [1, 2] } = {}) =>
  timeStep("mid", "running", 0, 1, {
    ...observation,
    position: tensor("int32", [2], Int32Array.from(position)),
  });

describe("the board", () => {
  it("is drawn from one agent's observations", () => {
    const known = new Map([[0, { name: "agent 6", reward: 0.5 }]]);
    const frame = readBoard(step(), known);
    expect(frame).toMatchObject({ step: 7, maxSteps: 50, status: "running" });
    expect(frame.board.food).toEqual([
      { row: 4, col: 5, level: 2 },
      { row: 0, col: 0, level: 0 },
    ]);
    expect(frame.foragers).toMatchObject([
      { slot: 0, name: "agent 6", row: 1, col: 2, level: 3, onBoard: true, reward: 0.5 },
      { slot: 1, onBoard: true, reward: 0 },
    ]);
  });

  it("cannot be drawn from the observations of another world", () => {
    const other = timeStep("mid", "running", 0, 1, { ...observation, agents: 3 });
    expect(() => readBoard(other, new Map())).toThrow(/expected an int32 tensor/);
  });

  it("is shown for each server once all agents on it have stepped", () => {
    const boards = createBoards((agent) => `agent ${agent}`);
    const a = { address: "http://a:1", worldName: "gridworld-1" };
    const b = { address: "http://b:1", worldName: "gridworld-1" };
    expect(boards.note(5, step({ position: [3, 4] }), b)).toBe(false);
    expect(boards.note(4, step(), b)).toBe(false);
    expect(boards.note(5, step({ position: [3, 4] }), b)).toBe(true);
    boards.note(1, step(), a);
    boards.note(0, step({ position: [3, 4] }), a);
    boards.note(1, step(), a);
    expect(boards.all().map(({ title }) => title)).toEqual([
      "gridworld-1 at a:1",
      "gridworld-1 at b:1",
    ]);
    const names = boards.all().map(({ frame }) => frame.foragers.map(({ name }) => name));
    expect(names).toEqual([
      ["agent 1", "agent 0"],
      ["agent 4", "agent 5"],
    ]);
    expect(boards.note(7, step(), { ...a, worldName: "gridworld-2" })).toBe(false);
    expect(boards.all()).toHaveLength(1);
  });
});

describe("the screen", () => {
  const board = { title: "gridworld-1 at a:1", frame: readBoard(step(), new Map()) };
  const screenOf = (output: Omit<Output, "write">) => {
    const written: string[] = [];
    const screen = createScreen({ ...output, write: (text) => written.push(text) > 0 });
    return { screen, written, all: () => written.join("") };
  };
  const show = (output: Omit<Output, "write">, boards = [board]): string => {
    const { screen, all } = screenOf(output);
    screen.show(boards, "a line below");
    return all();
  };
  const terminal = { isTTY: true, columns: 80, rows: 24 };

  it("has colours if the terminal supports them, else plain frames", () => {
    expect(show({ ...terminal, hasColors: () => true })).toContain("\u001b[38;2;");
    expect(show({ ...terminal, hasColors: () => false })).toContain("[3]");
    expect(show({})).toMatch(/^gridworld-1 at a:1\nstep 7\/50[\s\S]*a line below\n$/);
    expect(show({})).not.toContain("\u001b");
  });

  it("skips a frame that follows too soon, and redraws in place", () => {
    const { screen, written } = screenOf(terminal);
    for (let i = 0; i < 5; i++) {
      screen.show([board], "a line below");
    }
    expect(written).toHaveLength(1);
    screen.say("a line that stays");
    const lines = written[0]?.split("\n").length ?? 0;
    expect(written[1]).toBe(`\u001b[${lines - 1}F\u001b[Ja line that stays\n`);
    screen.say("another");
    expect(written[2]).toBe("another\n");
  });

  it.each([
    ["side by side in a wide terminal", { columns: 80, rows: 24 }, 13, 80],
    ["below each other in a narrow one", { columns: 40, rows: 40 }, 25, 40],
    ["only as far as they fit", { columns: 40, rows: 24 }, 13, 40],
    ["not at all if none fits", { columns: 20, rows: 10 }, 1, 20],
  ])("shows two boards %s", (_, size, lines, columns) => {
    const shown = show({ ...terminal, ...size }, [board, board])
      .trimEnd()
      .split("\n");
    expect(shown).toHaveLength(lines);
    expect(Math.max(...shown.map(({ length }) => length))).toBeLessThan(columns);
  });
});

describe("the flags", () => {
  it("shorten the pauses for more steps, so that the duration stays the same", () => {
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
