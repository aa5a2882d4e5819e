// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, it } from "vitest";
import type { AgentId } from "../definition/agent.ts";
import { RunningAgents } from "./running-agents.ts";
import { Seat } from "./seat.ts";
import { SeatSpecs } from "./seat-specs.ts";

const specs = new SeatSpecs({}, {}, 1);
const seats = Array.from({ length: 6 }, (_, i) => new Seat((i + 1) as AgentId, specs, {}));

it("agents are in the order of joining, however they come and go", () => {
  const moves = fc.array(fc.tuple(fc.boolean(), fc.constantFrom(...seats)));
  fc.assert(
    fc.property(moves, fc.boolean(), (done, looksOften) => {
      const running = new RunningAgents();
      const expected = new Set<Seat>();
      for (const [comes, seat] of done) {
        if (comes && !expected.has(seat)) running.add(seat);
        if (comes) expected.add(seat);
        else expect(running.delete(seat)).toBe(expected.delete(seat));
        if (looksOften) expect(running.seats.size).toBe(expected.size);
        expect(running.of(seat.agent)).toBe(comes ? seat : undefined);
      }
      expect([...running.seats]).toEqual([...expected].sort((a, b) => a.agent - b.agent));
      expect(running.size).toBe(expected.size);
    }),
  );
});
