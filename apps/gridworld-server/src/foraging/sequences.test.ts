// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createForaging, type Foraging } from "./foraging.ts";
import { places, seeded } from "./testing.ts";

/** Returns which slots have an agent. */
function slots(world: Foraging<never>): number[] {
  return [...world.agents()].filter((_, index) => index % 4 === 3);
}

const plan = fc.record({
  seed: fc.integer({ min: 0, max: 2 ** 31 }),
  height: fc.integer({ min: 3, max: 7 }),
  width: fc.integer({ min: 3, max: 7 }),
  maxAgents: fc.integer({ min: 1, max: 6 }),
  penalty: fc.constantFrom(0, 0.25),
  ticks: fc.array(
    fc.array(fc.constantFrom(0, 1, 2, 3, 4, 5, 5, 5), { minLength: 6, maxLength: 6 }),
    { minLength: 1, maxLength: 60, size: "max" },
  ),
});

type Plan = typeof plan extends fc.Arbitrary<infer Value> ? Value : never;

/** Starts a planned sequence with as many agents as may join. */
function start(planned: Plan): { world: Foraging<number>; agents: number[] } {
  const { ticks: _, seed, ...settings } = planned;
  const world = createForaging<number>(settings, seeded(seed));
  const agents = Array.from({ length: settings.maxAgents }, (_, agent) => agent);
  for (const agent of agents) {
    world.join(agent);
  }
  world.reset(agents);
  return { world, agents };
}

const foodLeft = (world: Foraging<number>) =>
  [...world.food()].reduce((sum, value, index) => (index % 3 === 2 ? sum + value : sum), 0);

describe("any sequence", () => {
  it("keeps its agents on the board and off the food, and moves them by at most one cell a tick", () => {
    fc.assert(
      fc.property(plan, (drawn) => {
        const { world, agents } = start(drawn);
        const { height, width } = drawn;
        for (const tick of drawn.ticks) {
          if (world.status !== "running") {
            break;
          }
          const before = places(world, agents.length);
          world.step(new Map(agents.map((agent) => [agent, tick[agent] ?? 0])));
          expect(slots(world).every((here) => here === 1)).toBe(true);
          places(world, agents.length).forEach(([row = -1, col = -1], agent) => {
            expect(row >= 0 && row < height && col >= 0 && col < width).toBe(true);
            const [oldRow = -1, oldCol = -1] = before[agent] ?? [];
            expect(Math.abs(row - oldRow) + Math.abs(col - oldCol)).toBeLessThanOrEqual(1);
            const centre =
              (world.settings.sight * (2 * world.settings.sight + 1) + world.settings.sight) * 4;
            expect(world.grid(agent)[centre + 1]).toBe(0);
          });
        }
      }),
    );
  });

  it("never gains food, and rewards exactly the loaded food", () => {
    fc.assert(
      fc.property(plan, (drawn) => {
        const { world, agents } = start({ ...drawn, penalty: 0 });
        const atStart = foodLeft(world);
        let paid = 0;
        let left = atStart;
        for (const tick of drawn.ticks) {
          if (world.status !== "running") {
            break;
          }
          world.step(new Map(agents.map((agent) => [agent, tick[agent] ?? 0])));
          for (const agent of agents) {
            paid += world.rewardOf(agent);
          }
          expect(foodLeft(world)).toBeLessThanOrEqual(left);
          left = foodLeft(world);
          if (atStart > 0) {
            expect(paid).toBeCloseTo((atStart - left) / atStart, 5);
          }
        }
        expect(paid).toBeLessThanOrEqual(1 + 1e-5);
        expect(world.status === "terminated").toBe(left === 0 && world.stepCount > 0);
      }),
    );
  });

  it("is the same, bit for bit, for the same seed, whatever the order of the actions and of the reset", () => {
    const transcript = (drawn: Plan, backwards: boolean) => {
      const { world, agents } = start(drawn);
      const order = backwards ? agents.toReversed() : agents;
      const lines: unknown[] = [];
      for (const tick of drawn.ticks) {
        if (world.status !== "running") {
          world.reset(order);
        }
        world.step(new Map(order.map((agent) => [agent, tick[agent] ?? 0])));
        const rewards = agents.map((agent) => world.rewardOf(agent));
        lines.push(world.text(), rewards, [...world.agents()], [...world.food()]);
      }
      return lines;
    };
    fc.assert(
      fc.property(plan, (drawn) => {
        expect(transcript(drawn, true)).toEqual(transcript(drawn, false));
      }),
      { numRuns: 40 },
    );
  });

  it("never has more agents than have joined, as they come and go", () => {
    const moves = fc.array(
      fc.tuple(
        fc.constantFrom("join", "leave", "enter", "remove", "reset", "step", "step"),
        fc.nat({ max: 5 }),
      ),
      { maxLength: 80, size: "max" },
    );
    fc.assert(
      fc.property(moves, fc.nat(), (calls, seed) => {
        const world = createForaging<number>({ height: 4, width: 4, maxAgents: 4 }, seeded(seed));
        const joined = new Set<number>();
        const onBoard = new Set<number>();
        for (const [call, agent] of calls) {
          if (call === "join" && !joined.has(agent) && joined.size < 4) {
            world.join(agent);
            joined.add(agent);
          } else if (call === "leave" && joined.delete(agent)) {
            world.leave(agent);
            onBoard.delete(agent);
          } else if (call === "enter" && joined.has(agent) && world.status === "running") {
            world.enter(agent);
            onBoard.add(agent);
          } else if (call === "remove" && joined.has(agent)) {
            world.remove(agent);
            onBoard.delete(agent);
          } else if (call === "reset" && joined.size > 0) {
            world.reset(joined);
            for (const each of joined) {
              onBoard.add(each);
            }
          } else if (call === "step" && world.status === "running") {
            world.step(new Map([...joined].map((each) => [each, (each + agent) % 6])));
          }
          expect(slots(world).filter((here) => here === 1)).toHaveLength(onBoard.size);
          for (const each of joined) {
            expect(world.isOnBoard(each)).toBe(onBoard.has(each));
          }
          const standing = new Set([...onBoard].map((each) => [...world.position(each)].join()));
          expect(world.text().match(/[a-z]/g)?.length ?? 0).toBe(standing.size);
        }
      }),
    );
  });
});
