// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { callsOf, eventsOf, House, profile } from "../../../testing/house.ts";
import { recordsOf } from "../../../testing/invariants.ts";

describe("a world that a server started with", () => {
  it("is adopted once, and can be used by a match", async () => {
    await using house = await House.open();
    const server = await house.serve("a");
    const name = server.create("gridworld", true);
    const world = server.worlds.get(name);
    if (world !== undefined) {
      world.sequences = 3;
    }
    await house.pass(3_000);
    expect(eventsOf(house, "world-adopted")).toEqual([
      { kind: "world-adopted", serverId: "a", worldName: name },
    ]);
    const { world: worlds } = await recordsOf(house.store);
    expect([...worlds.values()]).toMatchObject([
      {
        serverId: "a",
        address: "a.test:1",
        profile: "",
        type: "gridworld",
        seats: 0,
        name,
        state: "open",
        used: false,
        resetSequences: 3,
      },
    ]);
    const ids = await house.tickets(2);
    await house.settle();
    expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect((await house.ticket(ids[0] ?? "")).assignment?.worldName).toBe(name);
    expect(callsOf(house, "create")).toEqual([]);
  });

  it("is never destroyed while it is spare", async () => {
    await using house = await House.open({ settings: { orphanMs: 1_000 } });
    const server = await house.serve("a");
    server.create("gridworld", true);
    await house.pass(60_000, 5_000);
    expect(callsOf(house, "destroy")).toEqual([]);
  });

  it("ends with its match, and is not adopted again while its server still reports it", async () => {
    await using house = await House.open({ profiles: [profile({ count: 1 })] });
    const server = await house.serve("a");
    const name = server.create("gridworld", true);
    await house.pass(1_000);
    const [id = ""] = await house.tickets(1);
    await house.settle();
    await house.join(id);
    await house.pass(1_000);
    server.worlds.get(name)?.tickets.clear();
    await house.pass(3_000);
    expect(server.destroyed).toEqual(new Map([[name, 1]]));
    expect(eventsOf(house, "world-adopted")).toHaveLength(1);
    expect(house.matchmaker.counts().worlds).toBe(0);
  });
});

it("an adopted world that has ended is not adopted again from an earlier report", async () => {
  await using house = await House.open({ profiles: [profile({ count: 1 })] });
  const server = await house.serve("a");
  const name = server.create("gridworld", true);
  await house.pass(1_000);
  const [id = ""] = await house.tickets(1);
  await house.settle();
  await house.join(id);
  await house.pass(1_000);
  server.worlds.get(name)?.tickets.clear();
  await house.report(server);
  await house.settle();
  expect(server.destroyed).toEqual(new Map([[name, 1]]));
  house.time.advance(2_000);
  await house.settle();
  expect(eventsOf(house, "world-adopted")).toHaveLength(1);
  expect(house.matchmaker.counts().worlds).toBe(0);
});

describe("an orphaned world", () => {
  it("is destroyed after exactly orphanMs", async () => {
    await using house = await House.open({ settings: { orphanMs: 10_000 } });
    const server = await house.serve("a");
    await house.settle();
    const name = server.create("gridworld");
    await house.report(server);
    house.time.advance(500);
    await house.settle();
    house.time.advance(9_999);
    await house.report(server);
    await house.settle();
    expect(callsOf(house, "destroy")).toEqual([]);
    house.time.advance(500);
    await house.settle();
    expect(callsOf(house, "destroy")).toEqual([`destroy a/${name}`]);
    expect(eventsOf(house, "world-destroyed")).toEqual([
      { kind: "world-destroyed", serverId: "a", worldName: name },
    ]);
    expect(eventsOf(house, "world-adopted")).toEqual([]);
  });

  it("is destroyed with one call, however long the call takes", async () => {
    await using house = await House.open({ settings: { orphanMs: 1_000 } });
    const server = await house.serve("a");
    const name = server.create("gridworld");
    const release = house.servers.hold("destroy");
    for (let seconds = 0; seconds < 5; seconds++) {
      house.time.advance(1_000);
      await house.report(server);
      await house.matchmaker.tick();
    }
    expect(callsOf(house, "destroy")).toEqual([`destroy a/${name}`]);
    release();
    await house.pass(3_000);
    expect(callsOf(house, "destroy")).toHaveLength(1);
  });

  it("is destroyed only after the full orphanMs if an earlier world of the same name was destroyed", async () => {
    await using house = await House.open({ settings: { orphanMs: 4_000 } });
    const server = await house.serve("a");
    for (let times = 1; times <= 2; times++) {
      server.created = 0;
      server.create("gridworld");
      await house.pass(3_000);
      expect(callsOf(house, "destroy")).toHaveLength(times - 1);
      await house.pass(3_000);
      expect(callsOf(house, "destroy")).toHaveLength(times);
    }
  });
});
