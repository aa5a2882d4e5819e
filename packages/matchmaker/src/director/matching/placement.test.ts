// SPDX-License-Identifier: Apache-2.0
import { Placement } from "@dm-env-rpc/protocol/matchmaker";
import { expect, it } from "vitest";
import { House, profile } from "../../../testing/house.ts";
import { violations } from "../../../testing/invariants.ts";

it.each([
  ["worlds", { maxWorlds: 1, maxAgents: 40 }],
  ["agents", { maxWorlds: 10, maxAgents: 3 }],
])("matches of two profiles share a server's room for %s", async (_, room) => {
  await using house = await House.open({
    profiles: [profile({ name: "one" }), profile({ name: "other" })],
  });
  await house.serve("a", room);
  const ids = [
    ...(await house.tickets(2, { profile: "one" })),
    ...(await house.tickets(2, { profile: "other" })),
  ];
  await house.matchmaker.tick();
  // A second match is not even placed.
  expect(house.events.filter(({ kind }) => kind === "matched")).toHaveLength(1);
  await house.settle();
  expect(await violations(house.store, house.servers)).toEqual([]);
  expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED", "WAITING", "WAITING"]);
});

it("a world without an owner is not destroyed while an agent is in it", async () => {
  await using house = await House.open();
  const server = await house.serve("a");
  const name = server.create("gridworld");
  server.worlds.get(name)?.tickets.add("an agent of before");
  await house.pass(60_000, 5_000);
  expect([...server.worlds.keys()]).toEqual([name]);
  server.worlds.get(name)?.tickets.clear();
  await house.pass(60_000, 5_000);
  expect([...server.worlds.keys()]).toEqual([]);
});

/** Returns the number of worlds on each server after a number of matches. */
async function worldsAfter(matches: number, placement: Placement): Promise<number[]> {
  await using house = await House.open({ profiles: [profile({ placement })] });
  const servers = [
    await house.serve("a", { maxWorlds: 8, maxAgents: 40 }),
    await house.serve("b", { maxWorlds: 4, maxAgents: 40 }),
    await house.serve("c", { maxWorlds: 8, maxAgents: 20 }),
  ];
  for (let count = 0; count < matches; count++) {
    await house.tickets(2);
    await house.settle();
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

it("worlds that are placed in the same tick are spread, too", async () => {
  await using house = await House.open({
    profiles: [profile({ placement: Placement.SPREAD_AGENTS })],
  });
  const servers = [await house.serve("a"), await house.serve("b"), await house.serve("c")];
  await house.tickets(12);
  await house.settle();
  expect(servers.map(({ worlds }) => worlds.size)).toEqual([2, 2, 2]);
});

it.each([
  ["packed", Placement.PACKED],
  ["spread by worlds", Placement.SPREAD_WORLDS],
])(
  "of equally loaded servers, the one with the lowest id gets the world (%s)",
  async (_, placement) => {
    await using house = await House.open({ profiles: [profile({ placement })] });
    const servers = [await house.serve("b"), await house.serve("a"), await house.serve("c")];
    await house.tickets(2);
    await house.settle();
    expect(servers.map(({ worlds }) => worlds.size)).toEqual([0, 1, 0]);
  },
);

it("a world that is placed in a tick affects where the next world of that tick is placed", async () => {
  await using house = await House.open({
    profiles: [
      profile({ name: "us", count: 8, latencyLimit: { maxMs: 50 } }),
      profile({ name: "anywhere" }),
    ],
  });
  const [eu, us] = [
    await house.serve("a", { region: "eu", maxAgents: 12 }),
    await house.serve("b", { region: "us", maxAgents: 16 }),
  ];
  await house.tickets(8, { profile: "us", latenciesMs: { us: 10 } });
  await house.tickets(2, { profile: "anywhere" });
  await house.matchmaker.tick();
  await house.settle();
  expect([eu.worlds.size, us.worlds.size]).toEqual([0, 2]);
});

it("a server that has no room for another world, or for its agents, is passed over for the next one", async () => {
  await using house = await House.open();
  const servers = [
    await house.serve("a", { maxWorlds: 2, maxAgents: 40 }),
    await house.serve("b", { maxWorlds: 10, maxAgents: 5 }),
    await house.serve("c", { maxWorlds: 10, maxAgents: 100 }),
  ];
  await house.tickets(12);
  await house.matchmaker.tick();
  await house.settle();
  expect(servers.map(({ worlds }) => worlds.size)).toEqual([2, 2, 2]);
});

it("worlds are placed only on servers that have all labels of their profile", async () => {
  const serverLabels = { tier: "large", "agones.dev/fleet": "games" };
  await using house = await House.open({ profiles: [profile({ serverLabels })] });
  const servers = [
    await house.serve("a"),
    await house.serve("b", { labels: { tier: "large" } }),
    await house.serve("c", { labels: { ...serverLabels, tier: "small" } }),
  ];
  const ids = await house.tickets(2);
  await house.settle();
  expect(await house.states(ids)).toEqual(["WAITING", "WAITING"]);
  servers.push(await house.serve("d", { labels: { ...serverLabels, zone: "1" } }));
  await house.settle();
  expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  expect(servers.map(({ created }) => created)).toEqual([0, 0, 0, 1]);
});

it("a match uses a spare world only on a server with the labels of its profile", async () => {
  await using house = await House.open({
    profiles: [profile({ serverLabels: { tier: "large" } })],
  });
  const small = await house.serve("a");
  small.create("gridworld", true);
  await house.pass(1_000);
  expect(house.events.filter(({ kind }) => kind === "world-adopted")).toHaveLength(1);
  const ids = await house.tickets(2);
  await house.settle();
  expect(await house.states(ids)).toEqual(["WAITING", "WAITING"]);
});
