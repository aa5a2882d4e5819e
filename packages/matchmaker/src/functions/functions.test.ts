// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { byCount } from "./by-count.ts";
import type { MatchFunction, WaitingTicket } from "./match-function.ts";
import { PartyQueue } from "./parties.ts";
import { skillWindow } from "./skill-window.ts";
import { teams } from "./teams.ts";

const nowMs = 1_000_000;

function ticket(id: string, { waitedMs = 0, skill = 0, partySize = 1 } = {}): WaitingTicket {
  return {
    id,
    partySize,
    createdMs: nowMs - waitedMs,
    search: { doubles: { skill }, strings: {}, tags: [] },
    extensions: {},
  };
}

/** Returns the ticket ids of each match, by team. */
function matches(match: MatchFunction, pools: Record<string, readonly WaitingTicket[]>) {
  const context = { profile: "p", parameters: {}, pools: new Map(Object.entries(pools)), nowMs };
  return [...match(context)].map((proposal) =>
    Object.values(proposal.teams).map((team) => team.map(({ id }) => id)),
  );
}

describe("byCount", () => {
  it("matches the oldest tickets of all pools first, and leaves the rest waiting", () => {
    const pools = {
      new: [ticket("c", { waitedMs: 10 }), ticket("e", { waitedMs: 5 })],
      old: [
        ticket("a", { waitedMs: 30 }),
        ticket("b", { waitedMs: 20 }),
        ticket("c", { waitedMs: 10 }),
      ],
    };
    expect(matches(byCount(2), pools)).toEqual([[["a", "b"]], [["c", "e"]]]);
  });
});

describe("teams", () => {
  it("fills each team from its pool, and matches a ticket that is in two pools once", () => {
    const both = ticket("both", { waitedMs: 9 });
    const pools = {
      hunters: [both, ticket("h1"), ticket("h2")],
      prey: [both, ticket("p1"), ticket("p2")],
    };
    const sizes = [
      { name: "left", pool: "hunters", size: 2 },
      { name: "right", pool: "prey", size: 1 },
    ];
    expect(matches(teams(sizes), pools)).toEqual([[["both", "h1"], ["p1"]]]);
  });
});

describe("skillWindow", () => {
  const options = { count: 2, double: "skill", window: 10, widenPerSecond: 1 };

  it("matches only neighbours whose skills lie within the window", () => {
    const pool = [0, 100, 8, 109].map((skill) => ticket(`s${skill}`, { skill }));
    expect(matches(skillWindow(options), { pool })).toEqual([[["s0", "s8"]], [["s100", "s109"]]]);
    const apart = [0, 50].map((skill) => ticket(`s${skill}`, { skill }));
    expect(matches(skillWindow(options), { apart })).toEqual([]);
  });

  it("widens with the longest wait, up to maxWindow", () => {
    const pool = [ticket("old", { skill: 0, waitedMs: 40_000 }), ticket("new", { skill: 50 })];
    expect(matches(skillWindow(options), { pool })).toEqual([[["old", "new"]]]);
    expect(matches(skillWindow({ ...options, maxWindow: 49 }), { pool })).toEqual([]);
  });
});

describe("parties", () => {
  const pool = [
    ticket("trio", { waitedMs: 9, partySize: 3 }),
    ticket("pair", { waitedMs: 8, partySize: 2 }),
    ticket("other pair", { waitedMs: 7, partySize: 2 }),
    ticket("solo", { waitedMs: 6 }),
  ];

  it("fill matches exactly, starting with the oldest ticket", () => {
    expect(matches(byCount(4), { pool })).toEqual([[["trio", "solo"]], [["pair", "other pair"]]]);
  });

  it("wait for tickets that complete their match, while other tickets are matched", () => {
    expect(matches(byCount(4), { pool: pool.slice(0, 3) })).toEqual([[["pair", "other pair"]]]);
  });

  it("play in one team", () => {
    const sizes = [
      { name: "left", pool: "pool", size: 3 },
      { name: "right", pool: "pool", size: 2 },
    ];
    expect(matches(teams(sizes), { pool })).toEqual([[["trio"], ["pair"]]]);
  });

  it("are matched by the skill of their ticket", () => {
    const options = { count: 3, double: "skill", window: 10, widenPerSecond: 0 };
    const near = [
      ticket("a", { skill: 0, partySize: 2 }),
      ticket("b", { skill: 5, partySize: 2 }),
      ticket("c", { skill: 9 }),
      ticket("d", { skill: 40 }),
    ];
    expect(matches(skillWindow(options), { pool: near })).toEqual([[["a", "c"]]]);
  });
});

/** Returns waiting tickets of solos and parties, in matching order. */
const pools = fc
  .uniqueArray(
    fc.record({
      id: fc.nat(99),
      waitedMs: fc.nat(99_999),
      skill: fc.nat(200),
      partySize: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 4 })),
    }),
    { selector: ({ id }) => id, maxLength: 40, size: "max" },
  )
  .map((drawn) =>
    drawn.map(({ id, ...rest }) => ticket(`${id}`, rest)).sort((a, b) => a.createdMs - b.createdMs),
  );

it("byCount, which skips the search before the first party, makes the same matches as a PartyQueue", () => {
  fc.assert(
    fc.property(pools, fc.integer({ min: 1, max: 5 }), (pool, count) => {
      const queue = new PartyQueue(pool);
      const expected: string[][][] = [];
      for (let group = queue.take(count); group !== undefined; group = queue.take(count)) {
        expected.push([group.map(({ id }) => id)]);
      }
      expect(matches(byCount(count), { pool })).toEqual(expected);
    }),
  );
});

describe("every built-in function", () => {
  it("puts each ticket into at most one match, for any waiting tickets", () => {
    fc.assert(
      fc.property(pools, fc.integer({ min: 1, max: 5 }), (pool, count) => {
        for (const match of [
          byCount(count),
          teams([{ name: "t", pool: "one", size: count }]),
          skillWindow({ count, double: "skill", window: 20, widenPerSecond: 1 }),
        ]) {
          const found = matches(match, { one: pool, two: pool.slice(3) });
          const seated = found.flat(2);
          expect(new Set(seated).size).toBe(seated.length);
          const sizes = new Map(pool.map(({ id, partySize = 1 }) => [id, partySize]));
          for (const teams of found) {
            const agents = teams.flat().map((id) => sizes.get(id) ?? 0);
            expect(agents.reduce((sum, size) => sum + size, 0)).toBe(count);
          }
        }
      }),
    );
  });
});
