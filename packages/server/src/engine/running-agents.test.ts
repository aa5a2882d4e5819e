// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, it } from "vitest";
import type { AgentId } from "../definition/agent.ts";
import { RunningAgents } from "./running-agents.ts";

const seats = Array.from({ length: 6 }, (_, i) => ({ agent: (i + 1) as AgentId }));

it("agents are in the order of joining, however they come and go", () => {
  const moves = fc.array(fc.tuple(fc.boolean(), fc.constantFrom(...seats)));
  fc.assert(
    fc.property(moves, fc.boolean(), (done, looksOften) => {
      const running = new RunningAgents<(typeof seats)[number]>();
      const expected = new Set<(typeof seats)[number]>();
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
