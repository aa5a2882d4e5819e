// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { createForaging, type Foraging } from "./foraging.ts";
import { expectRefusal, noRandom, play, scene, seeded } from "./testing.ts";

/** Returns which slots have an agent. */
function slots(world: Foraging<never>): number[] {
  return [...world.agents()].filter((_, index) => index % 4 === 3);
}

describe("joining and leaving", () => {
  it("gives an agent the lowest free slot, which it keeps when other agents leave", () => {
    const world = createForaging<string>({ maxAgents: 3 }, seeded(1));
    for (const agent of ["x", "y", "z"]) {
      world.join(agent, { level: 5 });
    }
    world.leave("y");
    world.reset(["x", "z"]);
    expect(slots(world)).toEqual([1, 0, 1]);
    world.join("w", { level: 9 });
    world.enter("w");
    expect([...world.agents()].filter((_, index) => index % 4 === 2)).toEqual([5, 9, 5]);
  });

  it("is refused to an agent that has joined, above max_agents, and with an invalid level or name", () => {
    const world = createForaging<string>({ maxAgents: 2 }, seeded(1));
    world.join("x");
    expectRefusal(() => world.join("x"), "already-joined", "received x");
    expectRefusal(() => world.join("y", { level: 86 }), "invalid-setting", "level", "86");
    expectRefusal(() => world.join("y", { level: 0 }), "invalid-setting", "level");
    expectRefusal(() => world.join("y", { name: "n".repeat(65) }), "invalid-setting", "65");
    world.join("y");
    expectRefusal(() => world.join("z"), "world-full", "max_agents");
    expectRefusal(() => world.leave("z"), "unknown-agent", "received z");
  });

  it("removes an agent from the board in the middle of a sequence, and frees its cell", () => {
    const world = scene("ab.1");
    world.leave(1);
    expect(world.text()).toBe("a..1");
    expect(play(world, "east").text()).toBe(".a.1");
    expectRefusal(() => world.rewardOf(1), "unknown-agent");
  });

  it("frees the cell of an agent that leaves for the next one", () => {
    const world = createForaging<number>({ layout: "ab1" }, seeded(1));
    for (const agent of [0, 1]) {
      world.join(agent);
    }
    world.reset([0, 1]);
    world.leave(0);
    world.join(2, { level: 3 });
    world.enter(2);
    expect(world.text()).toBe("cb1");
  });

  it("does not let an agent off the board block its last cell", () => {
    const world = play(scene("a..b1"), "east", "none");
    world.remove(0);
    play(world, "none", "west");
    play(world, "none", "west");
    expect(world.text()).toBe(".b..1");
  });

  it("does not count an agent that has left as a loader", () => {
    const world = play(scene(".b.\na3.", { penalty: 1 }), "load", "none");
    world.remove(0);
    play(world, "load", "load");
    expect([world.rewardOf(0), world.rewardOf(1)]).toEqual([0, -1]);
  });

  it("continues without an agent on the board", () => {
    const world = scene("a.1");
    world.leave(0);
    world.step(new Map());
    expect([world.text(), world.status, world.stepCount]).toEqual(["..1", "running", 1]);
  });

  it("keeps a cell occupied when one of two agents on it leaves", () => {
    const world = play(scene("ab.c.1"), "east", "east", "west");
    world.remove(0);
    expect(world.text()).toBe(".b.c.1");
    expect(play(world, "none", "east", "none").text()).toBe("..bc.1");
  });
});

describe("a reset", () => {
  it("puts exactly the given agents on the board", () => {
    const world = scene("abc.1");
    world.reset([2, 0]);
    expect([0, 1, 2].map((agent) => world.isOnBoard(agent))).toEqual([true, false, true]);
    expect(world.text()).toBe("ab..1");
    expect([...world.position(0)]).toEqual([0, 0]);
    expect([...world.position(2)]).toEqual([0, 1]);
  });

  it("begins a sequence with new food, no reward and step 0", () => {
    const world = play(scene("a1.1"), "load");
    world.reset([0]);
    expect([world.text(), world.rewardOf(0), world.stepCount]).toEqual(["a1.1", 0, 0]);
    expect(world.food()).toEqual(scene("a1.1").food());
    expect(play(world, "load").rewardOf(0)).toBe(0.5);
  });

  it("is required before the first tick", () => {
    const world = createForaging<number>({}, noRandom);
    world.join(0);
    expect(world.status).toBe("interrupted");
    expectRefusal(() => play(world, "none"), "wrong-state", "reset first");
    expectRefusal(() => world.enter(0), "wrong-state", "reset first");
  });

  it("is refused without agents or with an unknown one, and then changes nothing", () => {
    const world = play(scene("a.1"), "east");
    expectRefusal(() => world.reset([]), "wrong-state", "at least one agent");
    expectRefusal(() => world.reset([0, 5]), "unknown-agent", "received 5");
    expect([world.text(), world.stepCount]).toEqual([".a1", 1]);
  });
});

describe("a late joiner", () => {
  it("appears on an empty cell, anywhere", () => {
    const seen = new Set<string>();
    for (let seed = 0; seed < 60; seed++) {
      const world = createForaging<number>({ layout: "a1.\n..2", maxAgentLevel: 1 }, seeded(seed));
      world.join(0);
      world.reset([0]);
      world.join(1, { level: 26 });
      world.enter(1);
      expect(world.text().replace("z", ".")).toBe("a1.\n..2");
      expect(world.rewardOf(1)).toBe(0);
      seen.add([...world.position(1)].join());
    }
    expect([...seen].sort()).toEqual(["0,2", "1,0", "1,1"]);
  });

  it("plays from the next tick on, for the same food and the same limit", () => {
    const world = createForaging<number>({ layout: "a3.", maxSteps: 2 }, seeded(1));
    world.join(0);
    world.reset([0]);
    play(world, "none");
    world.join(1, { level: 2 });
    world.enter(1);
    play(world, "load", "load");
    expect([world.rewardOf(0), world.rewardOf(1)]).toEqual([
      Math.fround(1 / 3),
      Math.fround(2 / 3),
    ]);
    expect(world.status).toBe("terminated");
  });

  it("is refused when agents and food stand on every cell, without drawing a random number", () => {
    let draws = 0;
    const settings = { height: 3, width: 3, maxAgents: 9 };
    const random = seeded(1);
    const world = createForaging<number>(settings, () => {
      draws++;
      return random();
    });
    for (let agent = 0; agent < 9; agent++) {
      world.join(agent);
    }
    do {
      world.reset([0, 1, 2, 3, 4, 5, 6, 7]);
    } while (world.text().includes("."));
    draws = 0;
    expectRefusal(() => world.enter(8), "board-full", "3 by 3");
    expect([draws, world.isOnBoard(8)]).toEqual([0, false]);
    world.remove(0);
    world.enter(8);
    expect(world.text()).not.toContain(".");
  });

  it("may be an agent that resets while others run: it vanishes and appears again", () => {
    const world = createForaging<number>({ layout: "ab1" }, seeded(3));
    for (const agent of [0, 1]) {
      world.join(agent, { level: agent + 1 });
    }
    world.reset([0, 1]);
    world.enter(0);
    expect(world.text()).toBe("ab1");
    world.remove(0);
    expect(world.text()).toBe(".b1");
    world.enter(0);
    expect(world.text()).toBe("ab1");
    expect(world.stepCount).toBe(0);
  });
});
