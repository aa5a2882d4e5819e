// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { MatchFunctionSchema, PoolSchema } from "@dm-env-rpc/protocol/matchmaker";
import { defineWorld, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { afterAll, describe, expect, it } from "vitest";
import { Fleet, fleetOn, profile } from "../testing/fleet.ts";
import { violations } from "../testing/invariants.ts";
import { stopStores, storeKinds } from "../testing/stores.ts";
import { joinMatch, matchmakerClient } from "./client/index.ts";
import { serveRegistered } from "./registration/index.ts";
import { serveMatchmaker } from "./serve-matchmaker.ts";

afterAll(stopStores);

const four = profile({ name: "four", count: 4, backfill: true });

/** Returns the tickets of each match. */
async function matchesOf(fleet: Fleet): Promise<string[][]> {
  const { matches } = await fleet.admin.listMatches({});
  return matches.map(({ teams }) => teams.flatMap(({ ticketIds }) => ticketIds));
}

/** Returns a report of the only world of server "a". */
function worldOf(
  agents: number,
  ticketIds: string[],
  leftTicketIds: string[] = [],
  guests?: number,
) {
  const world = { name: "gridworld-1", type: "gridworld", sequences: 1, joins: 4 };
  return {
    serverId: "a",
    epoch: 1n,
    worlds: [{ ...world, agents, ticketIds, leftTicketIds, guests }],
  };
}

describe.each(storeKinds)("a party, in $name,", ({ isHere, createData }) => {
  it.skipIf(!isHere)("has a seat for each of its agents, in one match", async () => {
    await using data = await createData();
    await using fleet = await fleetOn(data, { profiles: [four] });
    await fleet.serve("a");
    const [three = ""] = await fleet.tickets(1, { partySize: 3 });
    const [two = ""] = await fleet.tickets(1, { partySize: 2 });
    const [one = "", other = ""] = await fleet.tickets(2);
    await fleet.settle();
    expect(await matchesOf(fleet)).toEqual([[three, one]]);
    expect(await fleet.states([two, other])).toEqual(["WAITING", "WAITING"]);
    const { assignment, partySize } = await fleet.ticket(three);
    expect(partySize).toBe(3);
    expect(new Set(assignment?.joinTokens).size).toBe(3);
    expect(assignment?.joinTokens[0]).toBe(assignment?.joinToken);
    const [last = ""] = await fleet.tickets(1);
    await fleet.settle();
    expect(await matchesOf(fleet)).toEqual([
      [three, one],
      [two, other, last],
    ]);
    expect(await violations(fleet.store, fleet.servers)).toEqual([]);
  });

  it.skipIf(!isHere)("waits again as a whole when its world is lost", async () => {
    await using data = await createData();
    await using fleet = await fleetOn(data, { profiles: [four] });
    const server = await fleet.serve("a");
    const ids = await fleet.tickets(2, { partySize: 2 });
    await fleet.settle();
    await fleet.joinAll(ids);
    await fleet.pass(1_000);
    expect(await fleet.states(ids)).toEqual(["JOINED", "JOINED"]);
    server.isUp = false;
    fleet.time.advance(1_000);
    await fleet.registry.deregisterServer({ serverId: "a" });
    await fleet.serve("b");
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    const { assignment } = await fleet.ticket(ids[0] ?? "");
    expect(assignment?.joinTokens).toHaveLength(2);
    expect(assignment?.address).toBe("b.test:1");
  });
});

describe("the seats of a party", () => {
  it("are not filled by other tickets until all agents of the party have left", async () => {
    await using fleet = await Fleet.open({ profiles: [four] });
    await fleet.serve("a");
    const [party = "", solo = "", other = ""] = [
      ...(await fleet.tickets(1, { partySize: 2 })),
      ...(await fleet.tickets(2)),
    ];
    const [next = ""] = await fleet.tickets(1, { partySize: 2 });
    await fleet.settle();
    await fleet.registry.renewServer(worldOf(4, [party, solo, other]));
    await fleet.settle();
    // One of the two has left; the other one continues, and no third agent replaces the first.
    await fleet.registry.renewServer(worldOf(3, [party, solo, other]));
    await fleet.settle();
    expect(await fleet.states([party, next])).toEqual(["JOINED", "WAITING"]);
    await fleet.registry.renewServer(worldOf(2, [solo, other], [party]));
    await fleet.settle();
    expect(await fleet.states([party, next])).toEqual(["COMPLETED", "ASSIGNED"]);
  });

  it("are reserved until the tokens of absent agents expire, even in an empty world", async () => {
    await using fleet = await Fleet.open({ profiles: [profile({ count: 2 })] });
    await fleet.serve("a");
    const [party = ""] = await fleet.tickets(1, { partySize: 2 });
    await fleet.settle();
    await fleet.registry.renewServer(worldOf(1, [party]));
    await fleet.settle();
    // The first agent leaves before the second one joins.
    await fleet.registry.renewServer(worldOf(0, []));
    await fleet.settle();
    expect(await fleet.states([party])).toEqual(["JOINED"]);
    expect((await fleet.admin.listMatches({})).matches).toHaveLength(1);
    fleet.time.advance(31_001);
    await fleet.registry.renewServer(worldOf(0, []));
    await fleet.settle();
    expect(await fleet.states([party])).toEqual(["COMPLETED"]);
    expect((await fleet.admin.listMatches({})).matches).toHaveLength(0);
  });

  it("are assigned only if the world has enough free seats for the whole party", async () => {
    await using fleet = await Fleet.open({ profiles: [four] });
    await fleet.serve("a");
    const ids = await fleet.tickets(4);
    await fleet.settle();
    const [one = "", ...rest] = ids;
    await fleet.registry.renewServer(worldOf(4, ids));
    await fleet.settle();
    const [large = ""] = await fleet.tickets(1, { partySize: 2 });
    const [small = ""] = await fleet.tickets(1);
    await fleet.registry.renewServer(worldOf(3, rest, [one]));
    await fleet.settle();
    expect(await fleet.states([large, small])).toEqual(["WAITING", "ASSIGNED"]);
    expect(await violations(fleet.store, fleet.servers)).toEqual([]);
  });

  it("all count as used while one agent of the party is absent, and a guest's seat counts in addition", async () => {
    await using fleet = await Fleet.open({ profiles: [four] });
    await fleet.serve("a", { maxWorlds: 1 });
    const [party = ""] = await fleet.tickets(1, { partySize: 2 });
    const [solo = "", gone = ""] = await fleet.tickets(2);
    await fleet.settle();
    const [next = ""] = await fleet.tickets(1);
    // Inside: one of the party's two agents, the solo agent, and an agent without a ticket.
    await fleet.registry.renewServer(worldOf(3, [party, solo], [gone], 1));
    await fleet.settle();
    expect(await fleet.states([party, solo, gone, next])).toEqual([
      ...["JOINED", "JOINED", "COMPLETED", "WAITING"],
    ]);
    await fleet.registry.renewServer(worldOf(2, [party, solo], [], 0));
    await fleet.settle();
    expect(await fleet.states([next])).toEqual(["ASSIGNED"]);
  });

  it("are held after its ticket is cancelled until all of the ticket's tokens have expired and no agent of the party is inside", async () => {
    await using fleet = await Fleet.open({ profiles: [four] });
    await fleet.serve("a");
    const [party = ""] = await fleet.tickets(1, { partySize: 2 });
    const solos = await fleet.tickets(2);
    const [next = ""] = await fleet.tickets(1, { partySize: 2 });
    await fleet.settle();
    await fleet.registry.renewServer(worldOf(3, [party, ...solos]));
    await fleet.settle();
    await fleet.frontend.cancelTicket({ ticketId: party });
    await fleet.registry.renewServer(worldOf(2, solos));
    await fleet.settle();
    expect(await fleet.states([next])).toEqual(["WAITING"]);
    fleet.time.advance(31_001);
    await fleet.registry.renewServer(worldOf(2, solos));
    await fleet.settle();
    expect(await fleet.states([next])).toEqual(["ASSIGNED"]);
  });
});

describe("a party is refused", () => {
  const pool = create(PoolSchema, { name: "all" });
  const teams = [
    { name: "reds", pool: "all", size: 3 },
    { name: "blues", pool: "all", size: 2 },
  ];
  const matchFunction = create(MatchFunctionSchema, {
    function: { case: "teams", value: { teams } },
  });
  const raid = profile({ name: "raid", pools: [pool], matchFunction });

  it.each([
    [
      { profile: "raid", partySize: 4 },
      /at most 3 agents, the largest party that profile "raid" accepts/,
    ],
    [{ partySize: 5 }, /at most 4 agents, the largest party that any profile accepts/],
    [{ partySize: 33 }, /party_size: expected at most 32 \(limit: maxPartySize\), received 33/],
  ])("when it is created with %j", async (request, message) => {
    await using fleet = await Fleet.open({ profiles: [raid, four] });
    await expect(fleet.frontend.createTicket(request)).rejects.toThrow(message);
    await fleet.frontend.createTicket({ ...request, partySize: 3 });
  });

  it("if its id belongs to a ticket with another party size", async () => {
    await using fleet = await Fleet.open({ profiles: [four] });
    await fleet.frontend.createTicket({ ticketId: "t", partySize: 2 });
    await fleet.frontend.createTicket({ ticketId: "t", partySize: 2 });
    await expect(fleet.frontend.createTicket({ ticketId: "t", partySize: 3 })).rejects.toThrow(
      /\[already_exists\]/,
    );
  });
});

it("all agents of a party join with the tokens of one ticket, and each token admits one agent", async () => {
  const room = defineWorld({
    name: "room",
    actions: { wait: t.bool() },
    observations: { agents: t.int32() },
    agents: { max: 3 },
    create() {
      let agents = 0;
      return {
        join: () => void agents++,
        leave: () => void agents--,
        step() {},
        observe: { agents: () => agents },
      };
    },
  });
  const trio = profile({ name: "trio", count: 3, worldType: "room" });
  await using served = await serveMatchmaker({ profiles: [trio] });
  await using registered = await serveRegistered((hooks) => serve({ worlds: [room], ...hooks }), {
    matchmakers: served.url,
    maxWorlds: 1,
    maxAgents: 3,
    worldTypes: ["room"],
    timeoutMs: 60_000,
  });
  await registered.registration.registered;
  const client = matchmakerClient(served.url, { timeoutMs: 60_000 });
  const [match, solo] = await Promise.all([client.findMatch({ partySize: 2 }), client.findMatch()]);
  expect(match.joinTokens).toHaveLength(2);
  expect(solo.joinTokens).toEqual([solo.joinToken]);
  const environments = await Promise.all(
    [...match.joinTokens, solo.joinToken].map((joinToken) => joinMatch({ ...match, joinToken })),
  );
  await expect(joinMatch(match)).rejects.toThrow(/received a token whose seat has been taken/);
  const [first, ...others] = environments;
  await first?.close();
  expect(await client.get(match.ticketId)).toMatchObject({
    state: expect.stringMatching(/joined|assigned/),
  });
  await Promise.all(others.map((environment) => environment.close()));
  await expect
    .poll(async () => (await client.get(match.ticketId)).state, { timeout: 60_000 })
    .toBe("completed");
});
