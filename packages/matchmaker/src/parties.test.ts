// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { MatchFunctionSchema, PoolSchema } from "@dm-env-rpc/protocol/matchmaker";
import { defineWorld, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { afterAll, describe, expect, it } from "vitest";
import { House, houseAt, profile } from "../testing/house.ts";
import { violations } from "../testing/invariants.ts";
import { stopStores, storeKinds } from "../testing/stores.ts";
import { joinMatch, matchmakerClient } from "./client/index.ts";
import { serveRegistered } from "./registration/index.ts";
import { serveMatchmaker } from "./serve-matchmaker.ts";

afterAll(stopStores);

const four = profile({ name: "four", count: 4, backfill: true });

/** Returns the tickets of each match. */
async function matchesOf(house: House): Promise<string[][]> {
  const { matches } = await house.admin.listMatches({});
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

describe.each(storeKinds)("a party, in $name,", ({ isHere, place }) => {
  it.skipIf(!isHere)("has a seat for each of its agents, in one match", async () => {
    await using at = await place();
    await using house = await houseAt(at, { profiles: [four] });
    await house.serve("a");
    const [three = ""] = await house.tickets(1, { partySize: 3 });
    const [two = ""] = await house.tickets(1, { partySize: 2 });
    const [one = "", other = ""] = await house.tickets(2);
    await house.settle();
    expect(await matchesOf(house)).toEqual([[three, one]]);
    expect(await house.states([two, other])).toEqual(["WAITING", "WAITING"]);
    const { assignment, partySize } = await house.ticket(three);
    expect(partySize).toBe(3);
    expect(new Set(assignment?.joinTokens).size).toBe(3);
    expect(assignment?.joinTokens[0]).toBe(assignment?.joinToken);
    const [last = ""] = await house.tickets(1);
    await house.settle();
    expect(await matchesOf(house)).toEqual([
      [three, one],
      [two, other, last],
    ]);
    expect(await violations(house.store, house.servers)).toEqual([]);
  });

  it.skipIf(!isHere)("waits again as a whole when its world is lost", async () => {
    await using at = await place();
    await using house = await houseAt(at, { profiles: [four] });
    const server = await house.serve("a");
    const ids = await house.tickets(2, { partySize: 2 });
    await house.settle();
    await house.joinAll(ids);
    await house.pass(1_000);
    expect(await house.states(ids)).toEqual(["JOINED", "JOINED"]);
    server.isUp = false;
    house.time.advance(1_000);
    await house.registry.deregisterServer({ serverId: "a" });
    await house.serve("b");
    await house.settle();
    expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    const { assignment } = await house.ticket(ids[0] ?? "");
    expect(assignment?.joinTokens).toHaveLength(2);
    expect(assignment?.address).toBe("b.test:1");
  });
});

describe("the seats of a party", () => {
  it("are not filled by other tickets until all agents of the party have left", async () => {
    await using house = await House.open({ profiles: [four] });
    await house.serve("a");
    const [party = "", solo = "", other = ""] = [
      ...(await house.tickets(1, { partySize: 2 })),
      ...(await house.tickets(2)),
    ];
    const [next = ""] = await house.tickets(1, { partySize: 2 });
    await house.settle();
    await house.registry.renewServer(worldOf(4, [party, solo, other]));
    await house.settle();
    // One of the two has left; the other one continues, and no third agent replaces the first.
    await house.registry.renewServer(worldOf(3, [party, solo, other]));
    await house.settle();
    expect(await house.states([party, next])).toEqual(["JOINED", "WAITING"]);
    await house.registry.renewServer(worldOf(2, [solo, other], [party]));
    await house.settle();
    expect(await house.states([party, next])).toEqual(["COMPLETED", "ASSIGNED"]);
  });

  it("are reserved until the tokens of absent agents expire, even in an empty world", async () => {
    await using house = await House.open({ profiles: [profile({ count: 2 })] });
    await house.serve("a");
    const [party = ""] = await house.tickets(1, { partySize: 2 });
    await house.settle();
    await house.registry.renewServer(worldOf(1, [party]));
    await house.settle();
    // The first agent leaves before the second one joins.
    await house.registry.renewServer(worldOf(0, []));
    await house.settle();
    expect(await house.states([party])).toEqual(["JOINED"]);
    expect((await house.admin.listMatches({})).matches).toHaveLength(1);
    house.time.advance(31_001);
    await house.registry.renewServer(worldOf(0, []));
    await house.settle();
    expect(await house.states([party])).toEqual(["COMPLETED"]);
    expect((await house.admin.listMatches({})).matches).toHaveLength(0);
  });

  it("are assigned only if the world has enough free seats for the whole party", async () => {
    await using house = await House.open({ profiles: [four] });
    await house.serve("a");
    const ids = await house.tickets(4);
    await house.settle();
    const [one = "", ...rest] = ids;
    await house.registry.renewServer(worldOf(4, ids));
    await house.settle();
    const [large = ""] = await house.tickets(1, { partySize: 2 });
    const [small = ""] = await house.tickets(1);
    await house.registry.renewServer(worldOf(3, rest, [one]));
    await house.settle();
    expect(await house.states([large, small])).toEqual(["WAITING", "ASSIGNED"]);
    expect(await violations(house.store, house.servers)).toEqual([]);
  });

  it("do not hide agents without a ticket while an agent of the party is absent", async () => {
    await using house = await House.open({ profiles: [four] });
    await house.serve("a", { maxWorlds: 1 });
    const [party = ""] = await house.tickets(1, { partySize: 2 });
    const [solo = "", gone = ""] = await house.tickets(2);
    await house.settle();
    const [next = ""] = await house.tickets(1);
    // Inside: one of the party's two agents, the solo agent, and an agent without a ticket.
    await house.registry.renewServer(worldOf(3, [party, solo], [gone], 1));
    await house.settle();
    expect(await house.states([party, solo, gone, next])).toEqual([
      ...["JOINED", "JOINED", "COMPLETED", "WAITING"],
    ]);
    await house.registry.renewServer(worldOf(2, [party, solo], [], 0));
    await house.settle();
    expect(await house.states([next])).toEqual(["ASSIGNED"]);
  });

  it("are held for a party that cancelled until all tokens have expired and no agent is inside", async () => {
    await using house = await House.open({ profiles: [four] });
    await house.serve("a");
    const [party = ""] = await house.tickets(1, { partySize: 2 });
    const solos = await house.tickets(2);
    const [next = ""] = await house.tickets(1, { partySize: 2 });
    await house.settle();
    await house.registry.renewServer(worldOf(3, [party, ...solos]));
    await house.settle();
    await house.frontend.cancelTicket({ ticketId: party });
    await house.registry.renewServer(worldOf(2, solos));
    await house.settle();
    expect(await house.states([next])).toEqual(["WAITING"]);
    house.time.advance(31_001);
    await house.registry.renewServer(worldOf(2, solos));
    await house.settle();
    expect(await house.states([next])).toEqual(["ASSIGNED"]);
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
      /at most 3 agents, the most that profile "raid" has room for/,
    ],
    [{ partySize: 5 }, /at most 4 agents, the most that the largest match or team of all profiles/],
    [{ partySize: 33 }, /party_size: expected at most 32 \(limit: maxPartySize\), received 33/],
  ])("when it is created with %j", async (request, message) => {
    await using house = await House.open({ profiles: [raid, four] });
    await expect(house.frontend.createTicket(request)).rejects.toThrow(message);
    await house.frontend.createTicket({ ...request, partySize: 3 });
  });

  it("if its id belongs to a ticket of another party size", async () => {
    await using house = await House.open({ profiles: [four] });
    await house.frontend.createTicket({ ticketId: "t", partySize: 2 });
    await house.frontend.createTicket({ ticketId: "t", partySize: 2 });
    await expect(house.frontend.createTicket({ ticketId: "t", partySize: 3 })).rejects.toThrow(
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
