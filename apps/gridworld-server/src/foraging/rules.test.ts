// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { drawn, expectRefusal, places, play, scene } from "./testing.ts";

describe("moving", () => {
  it("goes north, south, west and east, where row 0 is north", () => {
    const world = scene(`
      ....
      .a..
      ...1`);
    expect(places(play(world, "north"), 1)).toEqual([[0, 1]]);
    expect(places(play(world, "east"), 1)).toEqual([[0, 2]]);
    expect(places(play(world, "south"), 1)).toEqual([[1, 2]]);
    expect(places(play(world, "west"), 1)).toEqual([[1, 1]]);
    expect(places(play(world, "none"), 1)).toEqual([[1, 1]]);
  });

  it("stays on the board at each of its edges", () => {
    const world = scene("a.1");
    for (const action of ["north", "south", "west"] as const) {
      expect(play(world, action).text()).toBe("a.1");
    }
    expect(play(scene("1.a"), "east").text()).toBe("1.a");
  });

  it("does not wrap from the end of a row to the next", () => {
    expect(play(scene("..a\n...\n1.."), "east").text()).toBe("..a\n...\n1..");
    expect(play(scene("...\na..\n..1"), "west").text()).toBe("...\na..\n..1");
  });

  it("does not go into food, not even into food that is loaded in the same tick", () => {
    const world = play(scene("a1b"), "east", "load");
    expect(world.text()).toBe("a.b");
    expect(places(world, 2)).toEqual([
      [0, 0],
      [0, 2],
    ]);
  });

  it("lets two agents swap", () => {
    expect(play(scene(".ab.1"), "east", "west").text()).toBe(".ba.1");
  });

  it("lets an agent enter a cell that is being left", () => {
    expect(play(scene("abc..1"), "east", "east", "east").text()).toBe(".abc.1");
  });

  it("lets a ring of agents turn", () => {
    const world = scene(`
      ab.
      dc.
      ..1`);
    expect(play(world, "east", "south", "north", "west").text()).toBe(
      drawn(`
        da.
        cb.
        ..1`),
    );
  });

  it("leaves all claimants of a contested cell where they are", () => {
    const layout = drawn(`
      .a.
      b.c
      .d1`);
    expect(play(scene(layout), "south", "east", "west", "north").text()).toBe(layout);
  });

  it("counts an agent that stays or loads as a claimant of its cell", () => {
    expect(play(scene("ab.1"), "east", "none").text()).toBe("ab.1");
    expect(play(scene("ac4"), "east", "load").text()).toBe("ac4");
  });

  it("puts two agents on one cell when one enters it and the other fails to leave it", () => {
    // a enters b's cell; b and c contest the cell between them, so b stays.
    const world = play(scene("ab.c.1"), "east", "east", "west");
    expect(places(world, 3)).toEqual([
      [0, 1],
      [0, 1],
      [0, 3],
    ]);
  });

  it("lets two agents on one cell separate, and keeps both there if both stay", () => {
    const world = play(scene("ab.c.1"), "east", "east", "west");
    expect(places(play(world, "none", "none", "none"), 2)).toEqual([
      [0, 1],
      [0, 1],
    ]);
    expect(places(play(world, "west", "none", "none"), 2)).toEqual([
      [0, 0],
      [0, 1],
    ]);
  });

  it("stacks a whole queue when its head fails to leave", () => {
    const world = play(scene("abc.d.1"), "east", "east", "east", "west");
    expect(places(world, 4)).toEqual([
      [0, 1],
      [0, 2],
      [0, 2],
      [0, 4],
    ]);
  });
});

describe("loading", () => {
  it("gives an agent that is strong enough the food's share of all food", () => {
    const world = play(scene("b2.3"), "load");
    expect(world.text()).toBe("b..3");
    expect(world.rewardOf(0)).toBe(Math.fround(2 / 5));
    expect(world.status).toBe("running");
  });

  it("divides the reward by level among the agents that load together", () => {
    const world = scene(`
      .b..
      a3..
      ...1`);
    play(world, "load", "load");
    expect(world.rewardOf(0)).toBe(Math.fround((3 * 2) / (3 * 4)));
    expect(world.rewardOf(1)).toBe(Math.fround((3 * 1) / (3 * 4)));
  });

  it("counts only agents that load, and only on the four neighbouring cells", () => {
    const world = scene(`
      b.a
      .3.
      .b.
      ..a`);
    play(world, "load", "load", "load", "load");
    expect(world.text()).toContain("3");
    play(scene(".b.\na3.\n..."), "load", "none");
    const helped = play(scene(".b.\na3.\n..."), "none", "load");
    expect(helped.text()).toContain("3");
  });

  it("pays the food's level times the agent's level without normalize_reward", () => {
    const world = play(scene(".b.\na3.", { normalizeReward: false }), "load", "load");
    expect([world.rewardOf(0), world.rewardOf(1)]).toEqual([6, 3]);
  });

  it("subtracts the penalty only from each agent whose load fails", () => {
    const world = play(scene(".a.\na9a\n...", { penalty: 0.1 }), "load", "load", "none");
    expect([0, 1, 2].map((agent) => world.rewardOf(agent))).toEqual([
      Math.fround(-0.1),
      Math.fround(-0.1),
      0,
    ]);
    expect(world.text()).toContain("9");
  });

  it("subtracts no penalty for a load without food beside the agent", () => {
    expect(play(scene("a..1", { penalty: 1 }), "load").rewardOf(0)).toBe(0);
  });

  it("does not count an agent that moves beside the food in the same tick as a loader", () => {
    expect(play(scene("a.1"), "east").text()).toBe(".a1");
    expect(play(scene("a.1"), "load").rewardOf(0)).toBe(0);
  });

  it("lets two agents on one cell load together", () => {
    const world = scene("ab.b\n.3..");
    play(world, "east", "east", "west");
    expect(places(world, 2)).toEqual([
      [0, 1],
      [0, 1],
    ]);
    play(world, "load", "load", "none");
    expect([world.rewardOf(0), world.rewardOf(1)]).toEqual([
      Math.fround(1 / 3),
      Math.fround(2 / 3),
    ]);
  });

  it("lets an agent between two foods load both at once", () => {
    const world = play(scene("1b2"), "load");
    expect(world.rewardOf(0)).toBe(1);
    expect(world.status).toBe("terminated");
  });

  it("adds the reward of one food and the penalty of another", () => {
    const world = play(scene("1a9", { penalty: 0.5 }), "load");
    expect(world.rewardOf(0)).toBe(Math.fround(1 / 10 - 0.5));
  });

  it("rewards only the last tick", () => {
    const world = play(scene("a1.1"), "load");
    expect(world.rewardOf(0)).toBe(0.5);
    expect(play(world, "none").rewardOf(0)).toBe(0);
  });

  it("divides rewards by the total food at the start, even after some was loaded", () => {
    const world = play(play(play(scene("a1.3", { penalty: 1 }), "load"), "east"), "east");
    expect(play(world, "load").rewardOf(0)).toBe(-1);
    const strong = play(play(scene("c1.3"), "load"), "east");
    expect(play(play(strong, "east"), "load").rewardOf(0)).toBe(0.75);
  });
});

describe("the end of a sequence", () => {
  it("is terminated when no food is left", () => {
    const world = scene("a1");
    expect(world.status).toBe("running");
    expect(play(world, "load").status).toBe("terminated");
  });

  it("is interrupted at max_steps", () => {
    const world = scene("a.1", { maxSteps: 2 });
    expect(play(world, "none").status).toBe("running");
    expect(play(world, "none").status).toBe("interrupted");
    expect(world.stepCount).toBe(2);
  });

  it("is terminated, not interrupted, if the last food is loaded in the last tick", () => {
    const world = scene("a.1", { maxSteps: 2 });
    play(world, "east");
    expect(play(world, "load").status).toBe("terminated");
  });

  it("comes with the first tick when there is no food at all", () => {
    const world = scene("a..");
    expect(world.status).toBe("running");
    expect(play(world, "none").status).toBe("terminated");
  });

  it("allows no further tick until a reset", () => {
    const world = play(scene("a1"), "load");
    expectRefusal(() => play(world, "none"), "wrong-state", "terminated", "reset first");
    world.reset([0]);
    expect(play(world, "none").stepCount).toBe(1);
    expect(world.text()).toBe("a1");
  });
});

describe("actions", () => {
  it("count as none when missing, and are ignored from agents off the board", () => {
    const world = scene("ab.c.1");
    world.remove(2);
    world.step(
      new Map([
        [1, 4],
        [2, 98],
        [7, 99],
      ]),
    );
    expect(world.text()).toBe("a.b..1");
  });

  it.each([-1, 6, 1.5, Number.NaN])(
    "are refused when they are %s, and nothing happens",
    (action) => {
      const world = scene("ab.1");
      const actions = new Map([
        [0, 0],
        [1, action],
      ]);
      expectRefusal(
        () => world.step(actions),
        "invalid-action",
        "action of 1",
        `received ${action}`,
      );
      expect(world.stepCount).toBe(0);
      expect(play(world, "none", "east").text()).toBe("a.b1");
    },
  );
});
