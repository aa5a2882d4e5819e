// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { callsOf, eventsOf, Fleet, profile } from "../../../testing/fleet.ts";
import { recordsOf } from "../../../testing/invariants.ts";

describe("a world that a server started with", () => {
  it("is adopted once, and can be used by a match", async () => {
    await using fleet = await Fleet.open();
    const server = await fleet.serve("a");
    const name = server.create("gridworld", true);
    const world = server.worlds.get(name);
    if (world !== undefined) {
      world.sequences = 3;
    }
    await fleet.pass(3_000);
    expect(eventsOf(fleet, "world-adopted")).toEqual([
      { kind: "world-adopted", serverId: "a", worldName: name },
    ]);
    const { world: worlds } = await recordsOf(fleet.store);
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
    const ids = await fleet.tickets(2);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect((await fleet.ticket(ids[0] ?? "")).assignment?.worldName).toBe(name);
    expect(callsOf(fleet, "create")).toEqual([]);
  });

  it("is adopted in a later check if its server has reported many others", async () => {
    await using fleet = await Fleet.open();
    const server = await fleet.serve("a", { maxWorlds: 200 });
    for (let world = 0; world < 120; world++) {
      server.create("gridworld", true);
    }
    const adopted: number[] = [];
    for (let check = 0; check < 4; check++) {
      await fleet.pass(1_000);
      adopted.push(eventsOf(fleet, "world-adopted").length);
    }
    expect(adopted).toEqual([50, 100, 120, 120]);
  });

  it("is never destroyed while it is spare", async () => {
    await using fleet = await Fleet.open({ settings: { orphanMs: 1_000 } });
    const server = await fleet.serve("a");
    server.create("gridworld", true);
    await fleet.pass(60_000, 5_000);
    expect(callsOf(fleet, "destroy")).toEqual([]);
  });

  it("ends with its match, and is not adopted again while its server still reports it", async () => {
    await using fleet = await Fleet.open({ profiles: [profile({ count: 1 })] });
    const server = await fleet.serve("a");
    const name = server.create("gridworld", true);
    await fleet.pass(1_000);
    const [id = ""] = await fleet.tickets(1);
    await fleet.settle();
    await fleet.join(id);
    await fleet.pass(1_000);
    server.worlds.get(name)?.tickets.clear();
    await fleet.pass(3_000);
    expect(server.destroyed).toEqual(new Map([[name, 1]]));
    expect(eventsOf(fleet, "world-adopted")).toHaveLength(1);
    expect(fleet.matchmaker.counts().worlds).toBe(0);
  });
});

it("an adopted world that has ended is not adopted again from an earlier report", async () => {
  await using fleet = await Fleet.open({ profiles: [profile({ count: 1 })] });
  const server = await fleet.serve("a");
  const name = server.create("gridworld", true);
  await fleet.pass(1_000);
  const [id = ""] = await fleet.tickets(1);
  await fleet.settle();
  await fleet.join(id);
  await fleet.pass(1_000);
  server.worlds.get(name)?.tickets.clear();
  await fleet.report(server);
  await fleet.settle();
  expect(server.destroyed).toEqual(new Map([[name, 1]]));
  fleet.time.advance(2_000);
  await fleet.settle();
  expect(eventsOf(fleet, "world-adopted")).toHaveLength(1);
  expect(fleet.matchmaker.counts().worlds).toBe(0);
});

describe("an orphaned world", () => {
  it("is destroyed after exactly orphanMs", async () => {
    await using fleet = await Fleet.open({ settings: { orphanMs: 10_000 } });
    const server = await fleet.serve("a");
    await fleet.settle();
    const name = server.create("gridworld");
    await fleet.report(server);
    fleet.time.advance(500);
    await fleet.settle();
    fleet.time.advance(9_999);
    await fleet.report(server);
    await fleet.settle();
    expect(callsOf(fleet, "destroy")).toEqual([]);
    fleet.time.advance(500);
    await fleet.settle();
    expect(callsOf(fleet, "destroy")).toEqual([`destroy a/${name}`]);
    expect(eventsOf(fleet, "world-destroyed")).toEqual([
      { kind: "world-destroyed", serverId: "a", worldName: name },
    ]);
    expect(eventsOf(fleet, "world-adopted")).toEqual([]);
  });

  it("is destroyed with one call, however long the call takes", async () => {
    await using fleet = await Fleet.open({ settings: { orphanMs: 1_000 } });
    const server = await fleet.serve("a");
    const name = server.create("gridworld");
    const release = fleet.servers.hold("destroy");
    for (let seconds = 0; seconds < 5; seconds++) {
      fleet.time.advance(1_000);
      await fleet.report(server);
      await fleet.matchmaker.tick();
    }
    expect(callsOf(fleet, "destroy")).toEqual([`destroy a/${name}`]);
    release();
    await fleet.pass(3_000);
    expect(callsOf(fleet, "destroy")).toHaveLength(1);
  });

  it("is destroyed only after the full orphanMs if an earlier world of the same name was destroyed", async () => {
    await using fleet = await Fleet.open({ settings: { orphanMs: 4_000 } });
    const server = await fleet.serve("a");
    for (let times = 1; times <= 2; times++) {
      server.created = 0;
      server.create("gridworld");
      await fleet.pass(3_000);
      expect(callsOf(fleet, "destroy")).toHaveLength(times - 1);
      await fleet.pass(3_000);
      expect(callsOf(fleet, "destroy")).toHaveLength(times);
    }
  });
});
