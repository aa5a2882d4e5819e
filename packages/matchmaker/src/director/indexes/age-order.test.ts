// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, it } from "vitest";
import { byTurn, type WaitingTicket } from "../../functions/match-function.ts";
import { skillWindow } from "../../functions/skill-window.ts";
import { AgeOrder } from "./age-order.ts";

interface Drawn {
  readonly id: number;
  readonly createdMs: number;
  readonly skill: number;
  readonly partySize: number | undefined;
  readonly priority: number | undefined;
}

const ticket = ({ id, skill, ...rest }: Drawn): WaitingTicket => ({
  id: `t${id}`,
  ...rest,
  search: { doubles: { skill }, strings: {}, tags: [] },
  extensions: {},
});

const operations = fc.array(
  fc.record({
    id: fc.nat(30),
    createdMs: fc.nat(50),
    skill: fc.nat(40),
    partySize: fc.constantFrom(undefined, undefined, undefined, 2),
    priority: fc.constantFrom(undefined, 0, 1),
    remove: fc.boolean(),
  }),
  { maxLength: 60, size: "max" },
);

it("an AgeOrder keeps its tickets sorted, and returns the same list until a ticket is added or removed", () => {
  fc.assert(
    fc.property(operations, (drawn) => {
      const order = new AgeOrder();
      const known = new Map<string, WaitingTicket>();
      for (const { remove, ...rest } of drawn) {
        const { id } = rest;
        // A changed ticket is deleted before it is added again, as MatchIndex does.
        order.delete(`t${id}`);
        known.delete(`t${id}`);
        if (!remove) {
          const added = ticket(rest);
          order.add(added);
          known.set(added.id, added);
        }
        expect(order.list).toEqual([...known.values()].sort(byTurn));
        expect(order.list).toBe(order.list);
        expect(order.size).toBe(known.size);
      }
    }),
  );
});

it("a skill window that was called before proposes the same matches as a new skill window", () => {
  const options = { count: 2, double: "skill", window: 5, widenPerSecond: 1, maxWindow: 20 };
  fc.assert(
    fc.property(operations, fc.nat(60_000), (drawn, nowMs) => {
      const [lasting, order] = [skillWindow(options), new AgeOrder()];
      for (const { remove, ...rest } of drawn) {
        order.delete(`t${rest.id}`);
        if (!remove) {
          order.add(ticket(rest));
        }
        const pools = new Map([["all", order.list]]);
        const context = { profile: "p", parameters: {}, pools, nowMs };
        expect([...lasting(context)]).toEqual([...skillWindow(options)(context)]);
      }
    }),
  );
});
