// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { createForaging, type Foraging } from "./foraging.ts";
import { expectRefusal, play, scene, seeded } from "./testing.ts";

/** Returns one channel of an agent's grid as rows of digits, so that it can be read. */
function channel(world: Foraging<number>, agent: number, index: number): string[] {
  const side = 2 * world.settings.sight + 1;
  const grid = world.grid(agent);
  return Array.from({ length: side }, (_, row) =>
    Array.from({ length: side }, (_, col) => grid[(row * side + col) * 4 + index]).join(""),
  );
}

describe("the grid", () => {
  const world = scene(
    `
    a...
    .b3.
    ...c`,
    { sight: 2 },
  );

  it("shows agent levels around an agent, its own included", () => {
    expect(channel(world, 1, 0)).toEqual(["00000", "01000", "00200", "00003", "00000"]);
  });

  it("shows food levels", () => {
    expect(channel(world, 1, 1)).toEqual(["00000", "00000", "00030", "00000", "00000"]);
  });

  it("shows accessible cells: none off the board, with an agent or with food", () => {
    expect(channel(world, 1, 2)).toEqual(["00000", "00111", "01001", "01110", "00000"]);
  });

  it("shows the agent itself only in the centre", () => {
    expect(channel(world, 1, 3)).toEqual(["00000", "00000", "00100", "00000", "00000"]);
  });

  it("reaches beyond the board at a corner", () => {
    expect(channel(world, 2, 0)).toEqual(["00000", "20000", "00300", "00000", "00000"]);
    expect(channel(world, 2, 2)).toEqual(["11100", "00100", "11000", "00000", "00000"]);
  });

  it("does not show what is out of sight", () => {
    const near = scene("a..1b", { sight: 1 });
    expect(channel(near, 0, 0)).toEqual(["000", "010", "000"]);
    expect(channel(near, 0, 1)).toEqual(["000", "000", "000"]);
    expect(channel(near, 0, 2)).toEqual(["000", "001", "000"]);
    const far = scene("...1.\na.b.c\n.....", { sight: 1 });
    expect(channel(far, 1, 0)).toEqual(["000", "020", "000"]);
  });

  it("shows the agent that joined later if two share a cell", () => {
    const stacked = play(scene("ab.c.1", { sight: 1 }), "east", "east", "west");
    expect(channel(stacked, 0, 0)).toEqual(["000", "020", "000"]);
    expect(channel(stacked, 1, 0)).toEqual(["000", "020", "000"]);
    expect(channel(stacked, 0, 2)).toEqual(["000", "101", "000"]);
  });

  it("holds the maximum level, three times 85", () => {
    const strong = createForaging<number>({ cooperative: true }, seeded(1));
    for (const agent of [0, 1, 2]) {
      strong.join(agent, { level: 85 });
    }
    strong.reset([0, 1, 2]);
    expect(channel(strong, 0, 0).join("").match(/85/g)).toHaveLength(3);
    expect(channel(strong, 0, 1).join("").match(/255/g)).toHaveLength(4);
  });

  it("overwrites the given memory completely", () => {
    const out = new Uint8Array(100).fill(7);
    expect(world.grid(0, out)).toBe(out);
    expect(out).toEqual(world.grid(0));
    expect(() => world.grid(0, new Uint8Array(99))).toThrow(RangeError);
  });

  it("is a new array each time if no memory is given", () => {
    expect(world.grid(0)).not.toBe(world.grid(0));
  });
});

describe("agents, food, position, level and step", () => {
  it("list agents by slot, with zeros for absent agents", () => {
    const world = scene("a.b\n.1.", { maxAgents: 4 });
    expect([...world.agents()]).toEqual([0, 0, 1, 1, 0, 2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    world.remove(0);
    expect([...world.agents()]).toEqual([0, 0, 0, 0, 0, 2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
  });

  it("keep each food in its row, with zeros when it is gone", () => {
    const world = scene("1a.2", { food: 3 });
    expect([...world.food()]).toEqual([0, 0, 1, 0, 3, 2, 0, 0, 0]);
    play(world, "load");
    expect([...world.food()]).toEqual([0, 0, 0, 0, 3, 2, 0, 0, 0]);
  });

  it("contain one agent's position, level and the ticks so far", () => {
    const world = play(scene("a.1\n..c"), "none", "west");
    expect(world.position(1)).toEqual(Int32Array.of(1, 1));
    expect(world.level(1)).toBe(3);
    expect(world.stepCount).toBe(1);
  });

  it("are refused to an agent that is off the board or has not joined", () => {
    const world = scene("ab.1");
    world.remove(0);
    expectRefusal(() => world.grid(0), "wrong-state", "on the board");
    expectRefusal(() => world.position(0), "wrong-state");
    expectRefusal(() => world.level(0), "wrong-state");
    expectRefusal(() => world.position(9), "unknown-agent", "received 9");
    expect(world.rewardOf(0)).toBe(0);
  });
});
