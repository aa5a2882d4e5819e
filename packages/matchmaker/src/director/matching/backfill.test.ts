// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  MatchFunctionSchema,
  type MatchProfile,
  PoolSchema,
} from "@dm-env-rpc/protocol/matchmaker";
import { describe, expect, it } from "vitest";
import { eventsOf, House, profile } from "../../../testing/house.ts";
import { violations } from "../../../testing/invariants.ts";
import type { SimulatedServer } from "../../../testing/simulated-servers.ts";

/** A profile with two teams of two agents, each with its own pool. */
const teams: MatchProfile = profile({
  backfill: true,
  pools: ["red", "blue"].map((tag) =>
    create(PoolSchema, { name: tag, tagPresentFilters: [{ tag }] }),
  ),
  matchFunction: create(MatchFunctionSchema, {
    function: {
      case: "teams",
      value: {
        teams: ["red", "blue"].map((name) => ({ name, pool: name, size: 2 })),
      },
    },
  }),
});

const tagged = (...tags: string[]) => ({ searchFields: { tags } });

/** Removes the agents of tickets from their worlds. */
function leave(house: House, ...ids: readonly string[]): void {
  for (const { worlds } of house.servers.all.values()) {
    for (const { tickets } of worlds.values()) {
      for (const id of ids) {
        tickets.delete(id);
      }
    }
  }
}

/** Removes the agents of tickets from their worlds, and lets the servers report. */
async function left(house: House, ...ids: readonly string[]): Promise<void> {
  leave(house, ...ids);
  await house.reportAll();
  await house.settle();
}

/** Creates a match, and lets its agents join. */
async function played(house: House, count: number, init: object = {}): Promise<string[]> {
  const ids = await house.tickets(count, init);
  await house.settle();
  await house.joinAll(ids);
  await house.reportAll();
  await house.settle();
  return ids;
}

/** Sets the number of agents without a ticket in each world of a server. */
function setGuests(server: SimulatedServer, guests: number): void {
  for (const world of server.worlds.values()) {
    world.guests = guests;
  }
}

const rosters = async (house: House): Promise<string[][][]> => {
  const { matches } = await house.admin.listMatches({});
  return matches.map(({ teams }) => teams.map(({ ticketIds }) => ticketIds));
};

describe("an open seat of a team", () => {
  it("is filled with the oldest ticket of the team's pool", async () => {
    await using house = await House.open({ profiles: [teams] });
    await house.serve("a");
    const red = await house.tickets(2, tagged("red"));
    const blue = await played(house, 2, tagged("blue"));
    await house.joinAll(red);
    await house.reportAll();
    await house.settle();
    const [first = "", second = ""] = await house.tickets(2, tagged("blue"));
    const [other = ""] = await house.tickets(1, tagged("red"));
    await left(house, blue[0] ?? "");
    expect(await house.states([first, second, other])).toEqual(["ASSIGNED", "WAITING", "WAITING"]);
    expect((await house.ticket(first)).assignment?.team).toBe("blue");
    expect(await rosters(house)).toEqual([[red, [blue[1], first]]]);
    await left(house, red[1] ?? "");
    expect(await house.states([second, other])).toEqual(["WAITING", "ASSIGNED"]);
    expect(await rosters(house)).toEqual([
      [
        [red[0], other],
        [blue[1], first],
      ],
    ]);
    expect(house.matchmaker.counts()).toMatchObject({ worlds: 1, matches: 1 });
  });

  it("is filled once by a ticket that is in the pools of two teams", async () => {
    await using house = await House.open({ profiles: [teams] });
    await house.serve("a");
    const red = await house.tickets(2, tagged("red"));
    const blue = await house.tickets(2, tagged("blue"));
    await house.settle();
    await house.joinAll([...red, ...blue]);
    await house.reportAll();
    await house.settle();
    const [both = ""] = await house.tickets(1, tagged("red", "blue"));
    await left(house, red[0] ?? "", blue[0] ?? "");
    expect(await house.states([both])).toEqual(["ASSIGNED"]);
    expect((await rosters(house)).flat(2).filter((id) => id === both)).toHaveLength(1);
    expect(eventsOf(house, "step-failed")).toEqual([]);
    const { backfills } = await house.admin.listBackfills({});
    expect(backfills.map(({ openSeats }) => openSeats)).toEqual([["blue"]]);
  });
});

describe("the open seats of several teams", () => {
  /** Starts a match of two agents in each team; `leaveBoth` opens one seat in each team. */
  async function open() {
    const house = await House.open({ profiles: [teams] });
    await house.serve("a", { maxWorlds: 1 });
    const red = await house.tickets(2, tagged("red"));
    const blue = await played(house, 2, tagged("blue"));
    for (const id of red) {
      await house.join(id);
    }
    await house.reportAll();
    await house.settle();
    const leaveBoth = () => left(house, red[0] ?? "", blue[0] ?? "");
    return { house, red, blue, leaveBoth };
  }

  it("are not filled by tickets of one team beyond that team's seats", async () => {
    const { house, blue, leaveBoth } = await open();
    await using _house = house;
    const ids = await house.tickets(2, tagged("red"));
    await leaveBoth();
    expect(await house.states(ids)).toEqual(["ASSIGNED", "WAITING"]);
    const { backfills } = await house.admin.listBackfills({});
    expect(backfills.map(({ openSeats }) => openSeats)).toEqual([["blue"]]);
    expect((await rosters(house))[0]?.[1]).toEqual([blue[1]]);
  });

  it("are filled together, although the oldest ticket of both pools takes only one seat", async () => {
    const { house, leaveBoth } = await open();
    await using _house = house;
    const both = await house.tickets(1, tagged("red", "blue"));
    const others = [
      ...(await house.tickets(1, tagged("red"))),
      ...(await house.tickets(1, tagged("blue"))),
    ];
    await leaveBoth();
    expect(await house.states(both)).toEqual(["ASSIGNED"]);
    expect((await house.states(others)).toSorted()).toEqual(["ASSIGNED", "WAITING"]);
    expect(eventsOf(house, "assigned").at(-1)).toMatchObject({ tickets: 2 });
  });
});

it("open seats of a match without teams are filled with the oldest ticket of all pools", async () => {
  const pools = ["red", "blue"].map((tag) =>
    create(PoolSchema, { name: tag, tagPresentFilters: [{ tag }] }),
  );
  await using house = await House.open({ profiles: [profile({ backfill: true, pools })] });
  await house.serve("a", { maxWorlds: 1 });
  const ids = await played(house, 2, tagged("red"));
  const blue = await house.tickets(1, tagged("blue"));
  const red = await house.tickets(1, tagged("red"));
  const urgent = await house.tickets(1, { ...tagged("red"), priority: 1 });
  await left(house, ids[0] ?? "");
  const states = async () => (await house.states([...urgent, ...blue, ...red])).join(" ");
  expect(await states()).toBe("ASSIGNED WAITING WAITING");
  await left(house, ids[1] ?? "");
  expect(await states()).toBe("ASSIGNED ASSIGNED WAITING");
});

describe("open seats", () => {
  const four = () => House.open({ profiles: [profile({ count: 4, backfill: true })] });

  it("are filled in one commit, each with one ticket", async () => {
    await using house = await four();
    await house.serve("a");
    const ids = await played(house, 4);
    const more = await house.tickets(3);
    await left(house, ...ids.slice(0, 2));
    expect(await house.states(more)).toEqual(["ASSIGNED", "ASSIGNED", "WAITING"]);
    const [first, second] = await Promise.all(more.map((id) => house.ticket(id)));
    expect(first?.assignment?.joinToken).not.toBe(second?.assignment?.joinToken);
    expect(eventsOf(house, "assigned").at(-1)).toMatchObject({ tickets: 2 });
    const { backfills } = await house.admin.listBackfills({});
    expect(backfills).toEqual([]);
  });

  it("of the oldest match are filled first", async () => {
    await using house = await four();
    await house.serve("a");
    const older = await played(house, 4);
    const newer = await played(house, 4);
    // The seat of the newer match opens first.
    const [freed = ""] = newer;
    await left(house, freed);
    await left(house, older[0] ?? "");
    const [late = ""] = await house.tickets(1);
    await house.settle();
    const worldOf = async (id: string) => (await house.ticket(id)).assignment?.worldName;
    expect(await worldOf(late)).toBe(await worldOf(older[1] ?? ""));
  });

  it("are filled by the oldest party that fits", async () => {
    await using house = await four();
    await house.serve("a", { maxWorlds: 1 });
    const ids = await played(house, 4);
    const [three = ""] = await house.tickets(1, { partySize: 3 });
    const [two = ""] = await house.tickets(1, { partySize: 2 });
    const [one = ""] = await house.tickets(1);
    await left(house, ids[0] ?? "", ids[1] ?? "");
    expect(await house.states([three, two, one])).toEqual(["WAITING", "ASSIGNED", "WAITING"]);
    expect((await house.ticket(two)).assignment?.joinTokens).toHaveLength(2);
    const { backfills } = await house.admin.listBackfills({});
    expect(backfills).toEqual([]);
    await left(house, ids[2] ?? "");
    expect(await house.states([three, one])).toEqual(["WAITING", "ASSIGNED"]);
  });

  it("that agents without a ticket use are not filled until these agents leave", async () => {
    await using house = await four();
    const server = await house.serve("a", { maxWorlds: 1 });
    const ids = await played(house, 4);
    const more = await house.tickets(2);
    setGuests(server, 2);
    await left(house, ...ids.slice(0, 2));
    expect(await house.states(more)).toEqual(["WAITING", "WAITING"]);
    setGuests(server, 1);
    await house.reportAll();
    await house.settle();
    expect(await house.states(more)).toEqual(["ASSIGNED", "WAITING"]);
    setGuests(server, 0);
    await house.reportAll();
    await house.settle();
    expect(await house.states(more)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  it.each([
    ["agents", [{}, {}]],
    ["a party", [{ partySize: 2 }]],
  ])("exclude the seats of %s that have yet to join, and those of guests", async (_, members) => {
    await using house = await four();
    const server = await house.serve("a", { maxWorlds: 1 });
    const early = await house.tickets(2);
    const late: string[] = [];
    for (const init of members) {
      late.push(...(await house.tickets(1, init)));
    }
    await house.settle();
    await house.joinAll(early);
    await house.reportAll();
    await house.settle();
    const more = await house.tickets(1);
    // Two guests, and two members who have yet to join, fill the four seats.
    setGuests(server, 2);
    await left(house, ...early);
    expect(await house.states(early)).toEqual(["COMPLETED", "COMPLETED"]);
    expect(await house.states(more)).toEqual(["WAITING"]);
    setGuests(server, 1);
    await house.reportAll();
    await house.settle();
    expect(await house.states(more)).toEqual(["ASSIGNED"]);
  });

  it("are not filled while agents beyond the tickets inside use them, if the server reports no guests", async () => {
    await using house = await four();
    await house.serve("a", { maxWorlds: 1 });
    const ids = await house.tickets(4);
    await house.settle();
    const more = await house.tickets(1);
    const report = (agents: number) => {
      const world = { name: "gridworld-1", type: "gridworld", agents, sequences: 1, joins: 4 };
      const [gone = "", , ...ticketIds] = ids;
      return house.registry.renewServer({
        ...{ serverId: "a", epoch: 1n },
        worlds: [{ ...world, ticketIds, leftTicketIds: [gone] }],
      });
    };
    await report(3);
    await house.settle();
    expect(await house.states([...ids, ...more])).toEqual([
      ...["COMPLETED", "ASSIGNED", "JOINED", "JOINED", "WAITING"],
    ]);
    await report(2);
    await house.settle();
    expect(await house.states(more)).toEqual(["ASSIGNED"]);
  });

  it("do not count an agent that is inside with its ticket as a guest as well", async () => {
    await using house = await four();
    const server = await house.serve("a", { maxWorlds: 1 });
    const ids = await played(house, 4);
    const more = await house.tickets(2);
    setGuests(server, 1);
    await left(house, ...ids.slice(0, 2));
    expect(await house.states(more)).toEqual(["ASSIGNED", "WAITING"]);
    await house.join(more[0] ?? "");
    await house.reportAll();
    await house.settle();
    expect(await house.states(more)).toEqual(["JOINED", "WAITING"]);
    expect(await violations(house.store, house.servers)).toEqual([]);
  });

  it("of two matches are filled with different tickets in one tick", async () => {
    await using house = await four();
    await house.serve("a", { maxWorlds: 2 });
    const [one, other] = [await played(house, 4), await played(house, 4)];
    const more = await house.tickets(3);
    await left(house, one[0] ?? "", other[0] ?? "");
    expect(await house.states(more)).toEqual(["ASSIGNED", "ASSIGNED", "WAITING"]);
    const [first, second] = await Promise.all(more.map((id) => house.ticket(id)));
    expect(first?.assignment?.worldName).not.toBe(second?.assignment?.worldName);
    expect(eventsOf(house, "step-failed")).toEqual([]);
  });

  it("of a profile without backfill are not filled", async () => {
    await using house = await House.open({ profiles: [profile({ count: 2 })] });
    await house.serve("a", { maxWorlds: 1 });
    const ids = await played(house, 2);
    const more = await house.tickets(1);
    await left(house, ids[0] ?? "");
    expect(await house.states(more)).toEqual(["WAITING"]);
  });

  it("on a draining server are not filled", async () => {
    await using house = await four();
    await house.serve("a");
    const ids = await played(house, 4);
    await house.registry.drainServer({ serverId: "a" });
    const [late = ""] = await house.tickets(1);
    await left(house, ids[0] ?? "");
    expect(await house.states([late])).toEqual(["WAITING"]);
  });

  it("cause no commit if no ticket fits", async () => {
    await using house = await four();
    await house.serve("a");
    const ids = await played(house, 4);
    await house.tickets(1, { partySize: 3 });
    await left(house, ids[0] ?? "");
    const { position } = await house.store.changes(undefined, 1_000);
    await house.settle();
    expect((await house.store.changes(position, 1_000)).entries).toEqual([]);
  });

  it("are filled only by tickets that accept the region of the world", async () => {
    const latencyLimit = { maxMs: 100 };
    await using house = await House.open({
      profiles: [profile({ count: 2, backfill: true, latencyLimit })],
    });
    await house.serve("a", { region: "eu" });
    const ids = await played(house, 2, { latenciesMs: { eu: 20 } });
    const [far = ""] = await house.tickets(1, { latenciesMs: { us: 20 } });
    const [near = ""] = await house.tickets(1, { latenciesMs: { eu: 20 } });
    await left(house, ids[0] ?? "");
    expect(await house.states([far, near])).toEqual(["WAITING", "ASSIGNED"]);
  });

  it("are filled only after the world of the match has been created", async () => {
    await using house = await four();
    const release = house.servers.hold("create");
    await house.serve("a");
    const ids = await house.tickets(4);
    await house.matchmaker.tick();
    await house.frontend.cancelTicket({ ticketId: ids[0] ?? "" });
    const [late = ""] = await house.tickets(1);
    await house.matchmaker.tick();
    expect(await house.states([late])).toEqual(["WAITING"]);
    release();
    await house.settle();
    expect(await house.states([late])).toEqual(["ASSIGNED"]);
  });
});
