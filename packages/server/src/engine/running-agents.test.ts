// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, it } from "vitest";
import type { AgentId } from "../definition/agent.ts";
import { RunningAgents } from "./running-agents.ts";

interface Seat {
  readonly agent: AgentId;
}

const seats = Array.from({ length: 6 }, (_, i): Seat => ({ agent: (i + 1) as AgentId }));

it("agents are in the order of joining, in whatever order they enter and leave", () => {
  const moves = fc.array(fc.tuple(fc.boolean(), fc.constantFrom(...seats)));
  fc.assert(
    fc.property(moves, fc.boolean(), (done, looksOften) => {
      const running = new RunningAgents<Seat>();
      const expected = new Set<Seat>();
      for (const [comes, seat] of done) {
        if (comes && !expected.has(seat)) {
          running.add(seat);
        }
        if (comes) {
          expected.add(seat);
        } else {
          running.delete(seat);
          expected.delete(seat);
        }
        if (looksOften) {
          expect(running.agents.size).toBe(expected.size);
        }
      }
      expect([...running.agents]).toEqual([...expected].sort((a, b) => a.agent - b.agent));
      expect(running.size).toBe(expected.size);
    }),
  );
});

it("the set is the same object until an agent re-enters at an earlier place", () => {
  const [one, two, three] = seats as [Seat, Seat, Seat];
  const running = new RunningAgents<Seat>();
  const set = running.agents;
  running.add(two);
  running.add(three);
  running.delete(three);
  running.add(three);
  expect(running.agents).toBe(set);
  running.add(one);
  const sorted = running.agents;
  expect([...sorted]).toEqual([one, two, three]);
  expect(sorted).not.toBe(set);
  for (const seat of [one, two, three]) {
    running.delete(seat);
  }
  running.add(one);
  expect(running.agents).toBe(sorted);
});
