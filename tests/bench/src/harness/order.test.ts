// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { turnOrder } from "./order.ts";

describe.each([
  { size: 1, turns: 2 },
  { size: 2, turns: 2 },
  { size: 3, turns: 6 },
  { size: 4, turns: 4 },
  { size: 7, turns: 14 },
  { size: 8, turns: 8 },
])("the order of $size entrants over $turns turns", ({ size, turns }) => {
  const entrants = Array.from({ length: size }, (_, i) => i);
  const orders = Array.from({ length: turns }, (_, turn) => turnOrder(entrants, turn));

  it("has every entrant once in each turn", () => {
    for (const order of orders) {
      expect([...order].sort((a, b) => a - b)).toEqual(entrants);
    }
  });

  it("gives each entrant each place equally often", () => {
    for (const place of entrants) {
      const counts = entrants.map((entrant) => orders.filter((o) => o[place] === entrant).length);
      expect(new Set(counts)).toEqual(new Set([turns / size]));
    }
  });

  it("lets each entrant follow each other equally often", () => {
    const counts = new Map<string, number>();
    for (const order of orders) {
      for (let i = 1; i < size; i++) {
        const pair = `${order[i - 1]} ${order[i]}`;
        counts.set(pair, (counts.get(pair) ?? 0) + 1);
      }
    }
    expect(counts.size).toBe(size * (size - 1));
    expect(new Set(counts.values()).size).toBeLessThanOrEqual(1);
  });
});
