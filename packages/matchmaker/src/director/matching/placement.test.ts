// SPDX-License-Identifier: Apache-2.0
import { Placement } from "@dm-env-rpc/protocol/matchmaker";
import { afterAll, expect, it } from "vitest";
import { eventsOf, Fleet, fleetOn, profile } from "../../../testing/fleet.ts";
import { violations } from "../../../testing/invariants.ts";
import type { SimulatedServer } from "../../../testing/simulated-servers.ts";
import { stopStores, storeKinds } from "../../../testing/stores.ts";

afterAll(stopStores);

const redis = storeKinds.find(({ name }) => name === "Redis");

it.each([
  ["worlds", { maxWorlds: 1, maxAgents: 40 }],
  ["agents", { maxWorlds: 10, maxAgents: 3 }],
])("matches of two profiles share a server's room for %s", async (_, room) => {
  await using fleet = await Fleet.open({
    profiles: [profile({ name: "one" }), profile({ name: "other" })],
  });
  await fleet.serve("a", room);
  const ids = [
    ...(await fleet.tickets(2, { profile: "one" })),
    ...(await fleet.tickets(2, { profile: "other" })),
  ];
  await fleet.matchmaker.tick();
  // The second match is not placed at all, instead of being placed and then failing.
  expect(fleet.events.filter(({ kind }) => kind === "matched")).toHaveLength(1);
  await fleet.settle();
  expect(await violations(fleet.store, fleet.servers)).toEqual([]);
  expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED", "WAITING", "WAITING"]);
});

it("an orphaned world is not destroyed while an agent is in it", async () => {
  await using fleet = await Fleet.open();
  const server = await fleet.serve("a");
  const name = server.create("gridworld");
  server.worlds.get(name)?.tickets.add("an agent of before");
  await fleet.pass(60_000, 5_000);
  expect([...server.worlds.keys()]).toEqual([name]);
  server.worlds.get(name)?.tickets.clear();
  await fleet.pass(60_000, 5_000);
  expect([...server.worlds.keys()]).toEqual([]);
});

it.each([
  ["agents", { maxWorlds: 10, maxAgents: 4 }],
  ["worlds", { maxWorlds: 2, maxAgents: 40 }],
])("orphaned worlds use their server's room for %s until they are destroyed", async (_, room) => {
  await using fleet = await Fleet.open();
  const server = await fleet.serve("a", room);
  const orphans = [server.create("gridworld"), server.create("gridworld")];
  for (const name of orphans) {
    server.worlds.get(name)?.tickets.add(`first of ${name}`).add(`second of ${name}`);
  }
  await fleet.pass(1_000);
  const ids = await fleet.tickets(2);
  await fleet.pass(20_000);
  expect(fleet.servers.calls).not.toContain("create a");
  expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
  server.worlds.get(orphans[0] ?? "")?.tickets.clear();
  await fleet.pass(20_000);
  expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  expect(server.worlds.has(orphans[1] ?? "")).toBe(true);
});

it.skipIf(!redis?.isHere)(
  "a server whose full worlds the store has lost gets no more agents than it allows",
  async () => {
    await using data = await redis?.createData();
    if (data === undefined) {
      throw new Error("a Redis was expected");
    }
    await using fleet = await fleetOn(data);
    const server = await fleet.serve("a", { maxAgents: 4 });
    const lost = await fleet.tickets(4);
    await fleet.settle();
    await fleet.joinAll(lost);
    await fleet.pass(1_000);
    await data.flush();
    await fleet.matchmaker.tick();
    await fleet.admin.putProfile({ profile: profile() });
    await fleet.register(server);
    const ids = await fleet.tickets(4);
    await fleet.pass(20_000);
    expect(eventsOf(fleet, "store-lost")).toHaveLength(1);
    expect(await fleet.states(ids)).toEqual(ids.map(() => "WAITING"));
    for (const { tickets } of server.worlds.values()) {
      tickets.clear();
    }
    await fleet.pass(20_000);
    expect(await fleet.states(ids)).toEqual(ids.map(() => "ASSIGNED"));
  },
);

/** Returns the number of worlds on each server after a number of matches. */
async function worldsAfter(matches: number, placement: Placement): Promise<number[]> {
  await using fleet = await Fleet.open({ profiles: [profile({ placement })] });
  const servers = [
    await fleet.serve("a", { maxWorlds: 8, maxAgents: 40 }),
    await fleet.serve("b", { maxWorlds: 4, maxAgents: 40 }),
    await fleet.serve("c", { maxWorlds: 8, maxAgents: 20 }),
  ];
  for (let count = 0; count < matches; count++) {
    await fleet.tickets(2);
    await fleet.settle();
  }
  return servers.map(({ worlds }) => worlds.size);
}

it.each([
  ["packed", Placement.PACKED, [0, 0, 5]],
  ["packed by default", Placement.UNSPECIFIED, [0, 0, 5]],
  ["spread by worlds", Placement.SPREAD_WORLDS, [2, 1, 2]],
  ["spread by agents", Placement.SPREAD_AGENTS, [2, 2, 1]],
])("worlds are %s", async (_, placement, worlds) => {
  expect(await worldsAfter(5, placement)).toEqual(worlds);
});

it("worlds that are placed in the same tick are also spread", async () => {
  await using fleet = await Fleet.open({
    profiles: [profile({ placement: Placement.SPREAD_AGENTS })],
  });
  const servers = [await fleet.serve("a"), await fleet.serve("b"), await fleet.serve("c")];
  await fleet.tickets(12);
  await fleet.settle();
  expect(servers.map(({ worlds }) => worlds.size)).toEqual([2, 2, 2]);
});

it.each([
  ["packed", Placement.PACKED],
  ["spread by worlds", Placement.SPREAD_WORLDS],
])(
  "among equally loaded servers, the server with the lowest id gets the world (%s)",
  async (_, placement) => {
    await using fleet = await Fleet.open({ profiles: [profile({ placement })] });
    const servers = [await fleet.serve("b"), await fleet.serve("a"), await fleet.serve("c")];
    await fleet.tickets(2);
    await fleet.settle();
    expect(servers.map(({ worlds }) => worlds.size)).toEqual([0, 1, 0]);
  },
);

it("a world that is placed in a tick affects where the next world of that tick is placed", async () => {
  await using fleet = await Fleet.open({
    profiles: [
      profile({ name: "us", count: 8, latencyLimit: { maxMs: 50 } }),
      profile({ name: "anywhere" }),
    ],
  });
  const [eu, us] = [
    await fleet.serve("a", { region: "eu", maxAgents: 12 }),
    await fleet.serve("b", { region: "us", maxAgents: 16 }),
  ];
  await fleet.tickets(8, { profile: "us", latenciesMs: { us: 10 } });
  await fleet.tickets(2, { profile: "anywhere" });
  await fleet.matchmaker.tick();
  await fleet.settle();
  expect([eu.worlds.size, us.worlds.size]).toEqual([0, 2]);
});

it("a server that has no room for another world, or for its agents, is passed over for the next server", async () => {
  await using fleet = await Fleet.open();
  const servers = [
    await fleet.serve("a", { maxWorlds: 2, maxAgents: 40 }),
    await fleet.serve("b", { maxWorlds: 10, maxAgents: 5 }),
    await fleet.serve("c", { maxWorlds: 10, maxAgents: 100 }),
  ];
  await fleet.tickets(12);
  await fleet.matchmaker.tick();
  await fleet.settle();
  expect(servers.map(({ worlds }) => worlds.size)).toEqual([2, 2, 2]);
});

it("a packed world is placed on the server with the fewest free seats, counting the seats that the same tick has used for other labels", async () => {
  const serverLabels = { tier: "large" };
  await using fleet = await Fleet.open({
    profiles: [profile({ name: "large", serverLabels }), profile({ name: "anywhere" })],
  });
  const large = await fleet.serve("a", { maxAgents: 40, labels: serverLabels });
  const other = await fleet.serve("b", { maxAgents: 39 });
  await fleet.tickets(2, { profile: "large" });
  fleet.time.advance(1);
  await fleet.tickets(2, { profile: "anywhere" });
  await fleet.matchmaker.tick();
  await fleet.settle();
  expect([large.worlds.size, other.worlds.size]).toEqual([2, 0]);
});

it("worlds are placed only on servers that have all labels of their profile", async () => {
  const serverLabels = { tier: "large", "agones.dev/fleet": "games" };
  await using fleet = await Fleet.open({ profiles: [profile({ serverLabels })] });
  const servers = [
    await fleet.serve("a"),
    await fleet.serve("b", { labels: { tier: "large" } }),
    await fleet.serve("c", { labels: { ...serverLabels, tier: "small" } }),
  ];
  const ids = await fleet.tickets(2);
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
  servers.push(await fleet.serve("d", { labels: { ...serverLabels, zone: "1" } }));
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  expect(servers.map(({ created }) => created)).toEqual([0, 0, 0, 1]);
});

it("a match uses a spare world only on a server with the labels of its profile", async () => {
  await using fleet = await Fleet.open({
    profiles: [profile({ serverLabels: { tier: "large" } })],
  });
  const small = await fleet.serve("a");
  small.create("gridworld", true);
  await fleet.pass(1_000);
  expect(fleet.events.filter(({ kind }) => kind === "world-adopted")).toHaveLength(1);
  const ids = await fleet.tickets(2);
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
});

/** Opens a fleet that spreads worlds by load, with a server for each load. */
async function byLoad(loads: readonly (number | undefined)[], count = 2) {
  const fleet = await Fleet.open({
    profiles: [profile({ count, placement: Placement.SPREAD_LOAD })],
  });
  const servers: SimulatedServer[] = [];
  for (const [index, load] of loads.entries()) {
    const server = await fleet.serve(`server-${index}`);
    server.load = load;
    servers.push(server);
  }
  await fleet.reportAll();
  const created = (): number[] => servers.map(({ created }) => created);
  return { fleet, servers, created, [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose]() };
}

it("worlds are spread by load: the server with the lowest load gets the world", async () => {
  await using scene = await byLoad([0.6, 0.2, 0.9]);
  await scene.fleet.tickets(2);
  await scene.fleet.settle();
  expect(scene.created()).toEqual([0, 1, 0]);
});

it("each recently placed world counts with a load of at least 1 / maxWorlds", async () => {
  // A server has room for ten worlds, so each new world counts as 0.1: the idle server gets worlds until it is
  // as loaded as the others.
  await using scene = await byLoad([0.35, 0, 0.35]);
  await scene.fleet.tickets(8);
  await scene.fleet.settle();
  expect(scene.created()).toEqual([0, 4, 0]);
  await scene.fleet.tickets(4);
  await scene.fleet.settle();
  expect(scene.created()).toEqual([1, 4, 1]);
  // New reports contain the worlds, but their agents have not begun to play yet.
  await scene.fleet.reportAll();
  await scene.fleet.tickets(6);
  await scene.fleet.settle();
  expect(scene.created()).toEqual([2, 5, 2]);
});

it("a recently placed world counts with the average load of the server's other worlds", async () => {
  await using scene = await byLoad([0, 0.9]);
  const [idle] = scene.servers;
  await scene.fleet.tickets(2);
  await scene.fleet.settle();
  for (const ticket of idle?.worlds.keys() ?? []) {
    idle?.worlds.get(ticket)?.tickets.add("an agent");
  }
  if (idle !== undefined) {
    idle.load = 0.5;
  }
  await scene.fleet.pass(11_000);
  // The only world takes half of the server, so the server is full with the next one.
  await scene.fleet.tickets(2);
  await scene.fleet.settle();
  expect(scene.created()).toEqual([2, 0]);
  await scene.fleet.tickets(2);
  await scene.fleet.settle();
  expect(scene.created()).toEqual([2, 1]);
});

it("if a server reports no load, the share of its used seats counts as its load", async () => {
  // Each world takes 10 of 40 seats.
  await using scene = await byLoad([undefined, 0.3], 10);
  await scene.fleet.tickets(10);
  await scene.fleet.settle();
  expect(scene.created()).toEqual([1, 0]);
  await scene.fleet.tickets(10);
  await scene.fleet.settle();
  expect(scene.created()).toEqual([2, 0]);
  await scene.fleet.tickets(10);
  await scene.fleet.settle();
  expect(scene.created()).toEqual([2, 1]);
});

it.each([-0.1, 1.1, Number.NaN])("a report with the load %d is refused", async (load) => {
  await using fleet = await Fleet.open();
  await fleet.serve("a");
  await expect(
    fleet.registry.renewServer({ serverId: "a", epoch: 1n, worlds: [], load }),
  ).rejects.toThrow(`load: expected a number from 0 to 1, received ${load}`);
  const { servers } = await fleet.admin.listServers({});
  expect(servers[0]?.load).toBeUndefined();
});

it("operators read the load that a server last reported", async () => {
  await using scene = await byLoad([0.25, undefined]);
  const { servers } = await scene.fleet.admin.listServers({});
  expect(servers.map(({ load }) => load)).toEqual([0.25, undefined]);
});
