// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createForaging, type Foraging } from "./foraging.ts";
import type { ForagingSettingsInput } from "./settings.ts";
import { seeded } from "./testing.ts";

function reset(settings: ForagingSettingsInput, count: number, seed: number): Foraging<number> {
  const world = createForaging<number>(settings, seeded(seed));
  const agents = Array.from({ length: count }, (_, agent) => agent);
  for (const agent of agents) {
    world.join(agent);
  }
  world.reset(agents);
  return world;
}

/** Splits a flat observation into rows of `fields` and drops the absent ones. */
function present(data: Int32Array, fields: number): number[][] {
  const rows: number[][] = [];
  for (let at = 0; at < data.length; at += fields) {
    const row = [...data.subarray(at, at + fields)];
    if (row[2] !== 0) {
      rows.push(row);
    }
  }
  return rows;
}

const sizes = fc.record({
  height: fc.integer({ min: 3, max: 12 }),
  width: fc.integer({ min: 3, max: 12 }),
  maxAgents: fc.integer({ min: 1, max: 9 }),
  food: fc.integer({ min: 1, max: 10 }),
  maxAgentLevel: fc.integer({ min: 1, max: 85 }),
});
const seeds = fc.integer({ min: 0, max: 2 ** 31 });

describe("a reset without a layout", () => {
  it("puts agents on cells of their own with levels in 1…max_agent_level", () => {
    fc.assert(
      fc.property(sizes, seeds, (settings, seed) => {
        const agents = present(reset(settings, settings.maxAgents, seed).agents(), 4);
        expect(agents).toHaveLength(settings.maxAgents);
        expect(new Set(agents.map(([row, col]) => `${row},${col}`)).size).toBe(agents.length);
        for (const [row = -1, col = -1, level = 0] of agents) {
          expect(row >= 0 && row < settings.height && col >= 0 && col < settings.width).toBe(true);
          expect(level >= 1 && level <= settings.maxAgentLevel).toBe(true);
        }
      }),
    );
  });

  it("puts no food on the border, on an agent, next to other food, or 2 cells from it in a line", () => {
    fc.assert(
      fc.property(sizes, seeds, (settings, seed) => {
        const world = reset(settings, settings.maxAgents, seed);
        const food = present(world.food(), 3);
        const taken = new Set(present(world.agents(), 4).map(([row, col]) => `${row},${col}`));
        expect(food.length).toBeLessThanOrEqual(settings.food);
        food.forEach(([row = 0, col = 0], index) => {
          expect(row >= 1 && row <= settings.height - 2).toBe(true);
          expect(col >= 1 && col <= settings.width - 2).toBe(true);
          expect(taken.has(`${row},${col}`)).toBe(false);
          for (const [otherRow = 0, otherCol = 0] of food.slice(index + 1)) {
            const rows = Math.abs(row - otherRow);
            const cols = Math.abs(col - otherCol);
            expect(Math.max(rows, cols)).toBeGreaterThan(1);
            expect((rows === 0 && cols === 2) || (cols === 0 && rows === 2)).toBe(false);
          }
        });
      }),
    );
  });

  it("draws food levels up to the sum of the three lowest agent levels", () => {
    fc.assert(
      fc.property(sizes, seeds, fc.boolean(), (settings, seed, cooperative) => {
        const world = reset({ ...settings, cooperative }, settings.maxAgents, seed);
        const levels = present(world.agents(), 4).map(([, , level = 0]) => level);
        const most = levels
          .sort((a, b) => a - b)
          .slice(0, 3)
          .reduce((sum, level) => sum + level, 0);
        for (const [, , level = 0] of present(world.food(), 3)) {
          expect(level >= (cooperative ? most : 1) && level <= most).toBe(true);
        }
      }),
    );
  });

  it("draws food levels in min_food_level…max_food_level when that is given", () => {
    const settings = { minFoodLevel: 4, maxFoodLevel: 6, food: 8, height: 20, width: 20 };
    const seen = new Set<number>();
    for (let seed = 0; seed < 30; seed++) {
      for (const [, , level = 0] of present(reset(settings, 1, seed).food(), 3)) {
        seen.add(level);
      }
    }
    expect([...seen].sort()).toEqual([4, 5, 6]);
    const cooperative = present(reset({ ...settings, cooperative: true }, 1, 1).food(), 3);
    expect(cooperative.every(([, , level]) => level === 6)).toBe(true);
  });

  it("draws food that all agents together can load if min_food_level is above that", () => {
    const food = present(reset({ minFoodLevel: 50, maxAgentLevel: 1 }, 2, 3).food(), 3);
    expect(food).toHaveLength(4);
    expect(food.every(([, , level]) => level === 2)).toBe(true);
  });

  it("draws every level and every cell about as often", () => {
    const cells = new Map<string, number>();
    const levels = new Map<number, number>();
    const resets = 4_000;
    const world = createForaging<number>({ height: 3, width: 4, maxAgentLevel: 3 }, seeded(11));
    world.join(0);
    for (let count = 0; count < resets; count++) {
      world.reset([0]);
      const place = [...world.position(0)].join();
      cells.set(place, (cells.get(place) ?? 0) + 1);
      levels.set(world.level(0), (levels.get(world.level(0)) ?? 0) + 1);
    }
    expect(cells.size).toBe(12);
    for (const count of cells.values()) {
      expect(Math.abs(count / resets - 1 / 12)).toBeLessThan(0.02);
    }
    expect(levels.size).toBe(3);
    for (const count of levels.values()) {
      expect(Math.abs(count / resets - 1 / 3)).toBeLessThan(0.04);
    }
  });

  it("fits agents on every cell, and then has no food", () => {
    const world = reset({ height: 3, width: 3, maxAgents: 9 }, 9, 5);
    expect(world.text()).not.toContain(".");
    expect(present(world.food(), 3)).toEqual([]);
  });

  it("gives an agent its own level without changing any agent's cell", () => {
    const drawn = reset({}, 3, 8);
    const given = createForaging<number>({}, seeded(8));
    for (const agent of [0, 1, 2]) {
      given.join(agent, agent === 1 ? { level: 85 } : {});
    }
    given.reset([0, 1, 2]);
    expect(given.level(1)).toBe(85);
    for (const agent of [0, 1, 2]) {
      expect(given.position(agent)).toEqual(drawn.position(agent));
    }
    expect([given.level(0), given.level(2)]).toEqual([drawn.level(0), drawn.level(2)]);
  });
});

describe("a reset with a layout", () => {
  const layout = "b.1\n.c.";

  it("puts agents where they are drawn, in the order of joining", () => {
    const world = reset({ layout }, 2, 0);
    expect(world.text()).toBe(layout);
    expect([...world.position(0)]).toEqual([0, 0]);
    expect([...world.position(1)]).toEqual([1, 1]);
  });

  it("leaves out drawn agents that have not joined", () => {
    expect(reset({ layout }, 1, 0).text()).toBe("b.1\n...");
  });

  it("puts more agents than it draws on empty cells", () => {
    for (let seed = 0; seed < 50; seed++) {
      const world = reset({ layout, maxAgents: 5 }, 5, seed);
      expect(world.text()).not.toContain(".");
      expect(world.text()).toMatch(/^b.1\n.c.$/);
    }
  });

  it("prefers the level that an agent brings", () => {
    const world = createForaging<number>({ layout }, seeded(0));
    world.join(0, { level: 5 });
    world.reset([0]);
    expect(world.text()).toBe("e.1\n...");
  });
});
