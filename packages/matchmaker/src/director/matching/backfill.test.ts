// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  MatchFunctionSchema,
  type MatchProfile,
  PoolSchema,
} from "@dm-env-rpc/protocol/matchmaker";
import { describe, expect, it } from "vitest";
import { eventsOf, Fleet, profile } from "../../../testing/fleet.ts";
import { violations } from "../../../testing/invariants.ts";
import { SimulatedServer } from "../../../testing/simulated-servers.ts";

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
function leave(fleet: Fleet, ...ids: readonly string[]): void {
  for (const { worlds } of fleet.servers.all.values()) {
    for (const { tickets } of worlds.values()) {
      for (const id of ids) {
        tickets.delete(id);
      }
    }
  }
}

/** Removes the agents of tickets from their worlds, and lets the servers report. */
async function left(fleet: Fleet, ...ids: readonly string[]): Promise<void> {
  leave(fleet, ...ids);
  await fleet.reportAll();
  await fleet.settle();
}

/** Creates a match, and lets its agents join. */
async function played(fleet: Fleet, count: number, init: object = {}): Promise<string[]> {
  const ids = await fleet.tickets(count, init);
  await fleet.settle();
  await fleet.joinAll(ids);
  await fleet.reportAll();
  await fleet.settle();
  return ids;
}

/** Sets the number of agents without a ticket in each world of a server. */
function setGuests(server: SimulatedServer, guests: number): void {
  for (const world of server.worlds.values()) {
    world.guests = guests;
  }
}

const rosters = async (fleet: Fleet): Promise<string[][][]> => {
  const { matches } = await fleet.admin.listMatches({});
  return matches.map(({ teams }) => teams.map(({ ticketIds }) => ticketIds));
};

describe("an open seat of a team", () => {
  it("is filled with the oldest ticket of the team's pool", async () => {
    await using fleet = await Fleet.open({ profiles: [teams] });
    await fleet.serve("a");
    const red = await fleet.tickets(2, tagged("red"));
    const blue = await played(fleet, 2, tagged("blue"));
    await fleet.joinAll(red);
    await fleet.reportAll();
    await fleet.settle();
    const [first = "", second = ""] = await fleet.tickets(2, tagged("blue"));
    const [other = ""] = await fleet.tickets(1, tagged("red"));
    await left(fleet, blue[0] ?? "");
    expect(await fleet.states([first, second, other])).toEqual(["ASSIGNED", "WAITING", "WAITING"]);
    expect((await fleet.ticket(first)).assignment?.team).toBe("blue");
    expect(await rosters(fleet)).toEqual([[red, [blue[1], first]]]);
    await left(fleet, red[1] ?? "");
    expect(await fleet.states([second, other])).toEqual(["WAITING", "ASSIGNED"]);
    expect(await rosters(fleet)).toEqual([
      [
        [red[0], other],
        [blue[1], first],
      ],
    ]);
    expect(fleet.matchmaker.counts()).toMatchObject({ worlds: 1, matches: 1 });
  });

  it("is filled once by a ticket that is in the pools of two teams", async () => {
    await using fleet = await Fleet.open({ profiles: [teams] });
    await fleet.serve("a");
    const red = await fleet.tickets(2, tagged("red"));
    const blue = await fleet.tickets(2, tagged("blue"));
    await fleet.settle();
    await fleet.joinAll([...red, ...blue]);
    await fleet.reportAll();
    await fleet.settle();
    const [both = ""] = await fleet.tickets(1, tagged("red", "blue"));
    await left(fleet, red[0] ?? "", blue[0] ?? "");
    expect(await fleet.states([both])).toEqual(["ASSIGNED"]);
    expect((await rosters(fleet)).flat(2).filter((id) => id === both)).toHaveLength(1);
    expect(eventsOf(fleet, "step-failed")).toEqual([]);
    const { backfills } = await fleet.admin.listBackfills({});
    expect(backfills.map(({ openSeats }) => openSeats)).toEqual([["blue"]]);
  });
});

describe("the open seats of several teams", () => {
  /** Starts a match of two agents in each team; `leaveBoth` opens one seat in each team. */
  async function open() {
    const fleet = await Fleet.open({ profiles: [teams] });
    await fleet.serve("a", { maxWorlds: 1 });
    const red = await fleet.tickets(2, tagged("red"));
    const blue = await played(fleet, 2, tagged("blue"));
    for (const id of red) {
      await fleet.join(id);
    }
    await fleet.reportAll();
    await fleet.settle();
    const leaveBoth = () => left(fleet, red[0] ?? "", blue[0] ?? "");
    return { fleet, red, blue, leaveBoth };
  }

  it("are not filled by tickets of one team beyond that team's seats", async () => {
    const { fleet, blue, leaveBoth } = await open();
    await using _fleet = fleet;
    const ids = await fleet.tickets(2, tagged("red"));
    await leaveBoth();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "WAITING"]);
    const { backfills } = await fleet.admin.listBackfills({});
    expect(backfills.map(({ openSeats }) => openSeats)).toEqual([["blue"]]);
    expect((await rosters(fleet))[0]?.[1]).toEqual([blue[1]]);
  });

  it("are filled only as far as guests leave seats free in the world", async () => {
    const { fleet, leaveBoth } = await open();
    await using _fleet = fleet;
    for (const server of fleet.servers.all.values()) {
      setGuests(server, 1);
    }
    const ids = await fleet.tickets(2, tagged("red", "blue"));
    await leaveBoth();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "WAITING"]);
  });

  it("are filled together, and a ticket that is the oldest in two pools takes one of them", async () => {
    const { fleet, leaveBoth } = await open();
    await using _fleet = fleet;
    const both = await fleet.tickets(1, tagged("red", "blue"));
    const others = [
      ...(await fleet.tickets(1, tagged("red"))),
      ...(await fleet.tickets(1, tagged("blue"))),
    ];
    await leaveBoth();
    expect(await fleet.states(both)).toEqual(["ASSIGNED"]);
    expect((await fleet.states(others)).toSorted()).toEqual(["ASSIGNED", "WAITING"]);
    expect(eventsOf(fleet, "assigned").at(-1)).toMatchObject({ tickets: 2 });
  });
});

it("open seats of a match without teams are filled with the oldest ticket of all pools", async () => {
  const pools = ["red", "blue"].map((tag) =>
    create(PoolSchema, { name: tag, tagPresentFilters: [{ tag }] }),
  );
  await using fleet = await Fleet.open({ profiles: [profile({ backfill: true, pools })] });
  await fleet.serve("a", { maxWorlds: 1 });
  const ids = await played(fleet, 2, tagged("red"));
  const blue = await fleet.tickets(1, tagged("blue"));
  const red = await fleet.tickets(1, tagged("red"));
  const urgent = await fleet.tickets(1, { ...tagged("red"), priority: 1 });
  await left(fleet, ids[0] ?? "");
  const states = async () => (await fleet.states([...urgent, ...blue, ...red])).join(" ");
  expect(await states()).toBe("ASSIGNED WAITING WAITING");
  await left(fleet, ids[1] ?? "");
  expect(await states()).toBe("ASSIGNED ASSIGNED WAITING");
});

it("open seats of a match without teams are filled although only the last of its pools has a ticket", async () => {
  const pools = ["red", "blue"].map((tag) =>
    create(PoolSchema, { name: tag, tagPresentFilters: [{ tag }] }),
  );
  await using fleet = await Fleet.open({ profiles: [profile({ backfill: true, pools })] });
  await fleet.serve("a", { maxWorlds: 1 });
  const ids = await played(fleet, 2, tagged("red"));
  const blue = await fleet.tickets(1, tagged("blue"));
  await left(fleet, ids[0] ?? "");
  expect(await fleet.states(blue)).toEqual(["ASSIGNED"]);
});

describe("open seats", () => {
  const four = () => Fleet.open({ profiles: [profile({ count: 4, backfill: true })] });

  it("are filled in one commit, each with one ticket", async () => {
    await using fleet = await four();
    await fleet.serve("a");
    const ids = await played(fleet, 4);
    const more = await fleet.tickets(3);
    await left(fleet, ...ids.slice(0, 2));
    expect(await fleet.states(more)).toEqual(["ASSIGNED", "ASSIGNED", "WAITING"]);
    const [first, second] = await Promise.all(more.map((id) => fleet.ticket(id)));
    expect(first?.assignment?.joinToken).not.toBe(second?.assignment?.joinToken);
    expect(eventsOf(fleet, "assigned").at(-1)).toMatchObject({ tickets: 2 });
    const { backfills } = await fleet.admin.listBackfills({});
    expect(backfills).toEqual([]);
  });

  it("of the oldest match are filled first", async () => {
    await using fleet = await four();
    await fleet.serve("a");
    const older = await played(fleet, 4);
    const newer = await played(fleet, 4);
    // The seat of the newer match opens first.
    const [freed = ""] = newer;
    await left(fleet, freed);
    await left(fleet, older[0] ?? "");
    const [late = ""] = await fleet.tickets(1);
    await fleet.settle();
    const worldOf = async (id: string) => (await fleet.ticket(id)).assignment?.worldName;
    expect(await worldOf(late)).toBe(await worldOf(older[1] ?? ""));
  });

  it("are filled by the oldest party that fits", async () => {
    await using fleet = await four();
    await fleet.serve("a", { maxWorlds: 1 });
    const ids = await played(fleet, 4);
    const [three = ""] = await fleet.tickets(1, { partySize: 3 });
    const [two = ""] = await fleet.tickets(1, { partySize: 2 });
    const [one = ""] = await fleet.tickets(1);
    await left(fleet, ids[0] ?? "", ids[1] ?? "");
    expect(await fleet.states([three, two, one])).toEqual(["WAITING", "ASSIGNED", "WAITING"]);
    expect((await fleet.ticket(two)).assignment?.joinTokens).toHaveLength(2);
    const { backfills } = await fleet.admin.listBackfills({});
    expect(backfills).toEqual([]);
    await left(fleet, ids[2] ?? "");
    expect(await fleet.states([three, one])).toEqual(["WAITING", "ASSIGNED"]);
  });

  it("that guests use are not filled until the guests leave", async () => {
    await using fleet = await four();
    const server = await fleet.serve("a", { maxWorlds: 1 });
    const ids = await played(fleet, 4);
    const more = await fleet.tickets(2);
    setGuests(server, 2);
    await left(fleet, ...ids.slice(0, 2));
    expect(await fleet.states(more)).toEqual(["WAITING", "WAITING"]);
    setGuests(server, 1);
    await fleet.reportAll();
    await fleet.settle();
    expect(await fleet.states(more)).toEqual(["ASSIGNED", "WAITING"]);
    setGuests(server, 0);
    await fleet.reportAll();
    await fleet.settle();
    expect(await fleet.states(more)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  it.each([
    ["agents", [{}, {}]],
    ["a party", [{ partySize: 2 }]],
  ])(
    "do not include the seats of guests, or the seats of %s that may still join",
    async (_, members) => {
      await using fleet = await four();
      const server = await fleet.serve("a", { maxWorlds: 1 });
      const early = await fleet.tickets(2);
      const late: string[] = [];
      for (const init of members) {
        late.push(...(await fleet.tickets(1, init)));
      }
      await fleet.settle();
      await fleet.joinAll(early);
      await fleet.reportAll();
      await fleet.settle();
      const more = await fleet.tickets(1);
      // Two guests, and two members who have yet to join, fill the four seats.
      setGuests(server, 2);
      await left(fleet, ...early);
      expect(await fleet.states(early)).toEqual(["COMPLETED", "COMPLETED"]);
      expect(await fleet.states(more)).toEqual(["WAITING"]);
      setGuests(server, 1);
      await fleet.reportAll();
      await fleet.settle();
      expect(await fleet.states(more)).toEqual(["ASSIGNED"]);
    },
  );

  it("are not filled while agents without tickets use them, if the server reports no guests", async () => {
    await using fleet = await four();
    await fleet.serve("a", { maxWorlds: 1 });
    const ids = await fleet.tickets(4);
    await fleet.settle();
    const more = await fleet.tickets(1);
    const report = (agents: number) => {
      const world = { name: "gridworld-1", type: "gridworld", agents, sequences: 1, joins: 4 };
      const [gone = "", , ...ticketIds] = ids;
      return fleet.registry.renewServer({
        ...{ serverId: "a", epoch: 1n },
        worlds: [{ ...world, ticketIds, leftTicketIds: [gone] }],
      });
    };
    await report(3);
    await fleet.settle();
    expect(await fleet.states([...ids, ...more])).toEqual([
      ...["COMPLETED", "ASSIGNED", "JOINED", "JOINED", "WAITING"],
    ]);
    await report(2);
    await fleet.settle();
    expect(await fleet.states(more)).toEqual(["ASSIGNED"]);
  });

  it("are not filled while a cancelled ticket's agent uses them, if the server reports neither tickets nor guests", async () => {
    await using fleet = await four();
    const server = fleet.servers.add(new SimulatedServer("a"));
    const { epoch } = await fleet.registry.registerServer({
      serverId: "a",
      address: server.address,
      capacity: { maxWorlds: 1, maxAgents: 4 },
      worldTypes: ["gridworld"],
    });
    const [first = "", ...others] = await fleet.tickets(4);
    await fleet.settle();
    const report = async (agents: number): Promise<void> => {
      const world = { name: "gridworld-1", type: "gridworld", agents, sequences: 1, joins: 4 };
      await fleet.registry.renewServer({ serverId: "a", epoch, worlds: [world] });
      await fleet.settle();
    };
    await report(4);
    await fleet.frontend.cancelTicket({ ticketId: first });
    const [next = ""] = await fleet.tickets(1);
    await report(4);
    expect(await fleet.states([...others, next])).toEqual([
      ...["ASSIGNED", "ASSIGNED", "ASSIGNED", "WAITING"],
    ]);
    await report(3);
    expect(await fleet.states([next])).toEqual(["ASSIGNED"]);
  });

  it("are not used up by an agent that joined with a ticket, because that agent does not count as a guest", async () => {
    await using fleet = await four();
    const server = await fleet.serve("a", { maxWorlds: 1 });
    const ids = await played(fleet, 4);
    const more = await fleet.tickets(2);
    setGuests(server, 1);
    await left(fleet, ...ids.slice(0, 2));
    expect(await fleet.states(more)).toEqual(["ASSIGNED", "WAITING"]);
    await fleet.join(more[0] ?? "");
    await fleet.reportAll();
    await fleet.settle();
    expect(await fleet.states(more)).toEqual(["JOINED", "WAITING"]);
    expect(await violations(fleet.store, fleet.servers)).toEqual([]);
  });

  it("of two matches are filled with different tickets in one tick", async () => {
    await using fleet = await four();
    await fleet.serve("a", { maxWorlds: 2 });
    const [one, other] = [await played(fleet, 4), await played(fleet, 4)];
    const more = await fleet.tickets(3);
    await left(fleet, one[0] ?? "", other[0] ?? "");
    expect(await fleet.states(more)).toEqual(["ASSIGNED", "ASSIGNED", "WAITING"]);
    const [first, second] = await Promise.all(more.map((id) => fleet.ticket(id)));
    expect(first?.assignment?.worldName).not.toBe(second?.assignment?.worldName);
    expect(eventsOf(fleet, "step-failed")).toEqual([]);
  });

  it("are filled although guests are in another world of the server", async () => {
    await using fleet = await four();
    const server = await fleet.serve("a", { maxWorlds: 2 });
    await played(fleet, 4);
    setGuests(server, 2);
    const newer = await played(fleet, 4);
    const more = await fleet.tickets(1);
    await left(fleet, newer[0] ?? "");
    expect(await fleet.states(more)).toEqual(["ASSIGNED"]);
  });

  it("of a profile without backfill are not filled", async () => {
    await using fleet = await Fleet.open({ profiles: [profile({ count: 2 })] });
    await fleet.serve("a", { maxWorlds: 1 });
    const ids = await played(fleet, 2);
    const more = await fleet.tickets(1);
    await left(fleet, ids[0] ?? "");
    expect(await fleet.states(more)).toEqual(["WAITING"]);
  });

  it("of a profile that was deleted are not filled, and nothing fails", async () => {
    await using fleet = await four();
    await fleet.serve("a", { maxWorlds: 1 });
    const ids = await played(fleet, 4);
    await fleet.admin.deleteProfile({ name: "any" });
    const more = await fleet.tickets(1);
    await left(fleet, ids[0] ?? "");
    expect(await fleet.states(more)).toEqual(["WAITING"]);
    expect(eventsOf(fleet, "step-failed")).toEqual([]);
  });

  it("on a draining server are not filled", async () => {
    await using fleet = await four();
    await fleet.serve("a");
    const ids = await played(fleet, 4);
    await fleet.registry.drainServer({ serverId: "a" });
    const [late = ""] = await fleet.tickets(1);
    await left(fleet, ids[0] ?? "");
    expect(await fleet.states([late])).toEqual(["WAITING"]);
  });

  it("cause no commit if no ticket fits", async () => {
    await using fleet = await four();
    await fleet.serve("a");
    const ids = await played(fleet, 4);
    await fleet.tickets(1, { partySize: 3 });
    await left(fleet, ids[0] ?? "");
    const { position } = await fleet.store.changes(undefined, 1_000);
    await fleet.settle();
    expect((await fleet.store.changes(position, 1_000)).entries).toEqual([]);
  });

  it("are filled only by tickets that accept the region of the world", async () => {
    const latencyLimit = { maxMs: 100 };
    await using fleet = await Fleet.open({
      profiles: [profile({ count: 2, backfill: true, latencyLimit })],
    });
    await fleet.serve("a", { region: "eu" });
    const ids = await played(fleet, 2, { latenciesMs: { eu: 20 } });
    const [far = ""] = await fleet.tickets(1, { latenciesMs: { us: 20 } });
    const [near = ""] = await fleet.tickets(1, { latenciesMs: { eu: 20 } });
    await left(fleet, ids[0] ?? "");
    expect(await fleet.states([far, near])).toEqual(["WAITING", "ASSIGNED"]);
  });

  it("are filled only after the world of the match has been created", async () => {
    await using fleet = await four();
    const release = fleet.servers.hold("create");
    await fleet.serve("a");
    const ids = await fleet.tickets(4);
    await fleet.matchmaker.tick();
    await fleet.frontend.cancelTicket({ ticketId: ids[0] ?? "" });
    const [late = ""] = await fleet.tickets(1);
    await fleet.matchmaker.tick();
    expect(await fleet.states([late])).toEqual(["WAITING"]);
    release();
    await fleet.settle();
    expect(await fleet.states([late])).toEqual(["ASSIGNED"]);
  });
});
