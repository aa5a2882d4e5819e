// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { House, profile } from "../../testing/house.ts";
import { violations } from "../../testing/invariants.ts";

it.each([
  ["worlds", { maxWorlds: 1, maxAgents: 40 }],
  ["agents", { maxWorlds: 10, maxAgents: 3 }],
])("the matches of two profiles share the room for %s that there is", async (_, room) => {
  await using house = await House.open({
    profiles: [profile({ name: "one" }), profile({ name: "other" })],
  });
  await house.serve("a", room);
  const ids = [
    ...(await house.tickets(2, { profile: "one" })),
    ...(await house.tickets(2, { profile: "other" })),
  ];
  await house.matchmaker.tick();
  // The server is not even asked for a second world.
  expect(house.events.filter(({ kind }) => kind === "matched")).toHaveLength(1);
  await house.settle();
  expect(await violations(house.store, house.servers)).toEqual([]);
  expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED", "WAITING", "WAITING"]);
});

it("a world that nobody owns is left alone while an agent is in it", async () => {
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
