// SPDX-License-Identifier: Apache-2.0
import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { DestroyMode, type WorldPolicySchema } from "@dm-env-rpc/protocol/matchmaker";
import { afterAll, describe, expect, it } from "vitest";
import { callsOf, Fleet, fleetOn, playedMatch, profile } from "../../../testing/fleet.ts";
import { SimulatedServer } from "../../../testing/simulated-servers.ts";
import { type StoreData, stopStores, storeKinds } from "../../../testing/stores.ts";

afterAll(stopStores);

/** Starts a match of two joined agents on a store with `data`. */
const playing = (data: StoreData, policy: MessageInitShape<typeof WorldPolicySchema>) =>
  playedMatch(policy, { open: (options) => fleetOn(data, { profiles: options?.profiles }) });

describe("a policy", () => {
  it("destroys a draining world exactly after drainTimeout", async () => {
    await using match = await playedMatch({
      destroyAfterSequences: 1,
      drainTimeout: durationFromMs(20_000),
    });
    const { fleet, server, world } = match;
    world.sequences = 2;
    await fleet.report(server);
    await fleet.settle();
    fleet.time.advance(19_999);
    await fleet.settle();
    expect(callsOf(fleet, "destroy")).toEqual([]);
    fleet.time.advance(1);
    await fleet.report(server);
    await fleet.settle();
    expect(callsOf(fleet, "destroy")).toEqual(["destroy a/gridworld-1"]);
  });

  it("resets a world exactly after resetEvery", async () => {
    await using match = await playedMatch({ resetEvery: durationFromMs(20_000) });
    const { fleet, server } = match;
    const sinceOpenedMs = 1_000;
    fleet.time.advance(20_000 - sinceOpenedMs - 1);
    await fleet.report(server);
    await fleet.settle();
    expect(callsOf(fleet, "reset")).toEqual([]);
    fleet.time.advance(1);
    await fleet.report(server);
    await fleet.settle();
    expect(callsOf(fleet, "reset")).toEqual(["reset a/gridworld-1"]);
  });

  it("destroys an idle world exactly after destroyWhenIdleFor", async () => {
    await using match = await playedMatch({
      keepWhenEmpty: true,
      destroyWhenIdleFor: durationFromMs(20_000),
    });
    const { fleet, server, world } = match;
    world.tickets.clear();
    await fleet.report(server);
    await fleet.settle();
    fleet.time.advance(19_999);
    await fleet.report(server);
    await fleet.settle();
    expect(callsOf(fleet, "destroy")).toEqual([]);
    fleet.time.advance(1);
    await fleet.report(server);
    await fleet.settle();
    expect(callsOf(fleet, "destroy")).toEqual(["destroy a/gridworld-1"]);
  });

  it("applies when it is due, even without a new report", async () => {
    await using match = await playedMatch({
      keepWhenEmpty: true,
      destroyWhenIdleFor: durationFromMs(5_000),
    });
    const { fleet, server, world } = match;
    world.tickets.clear();
    await fleet.report(server);
    await fleet.settle();
    fleet.time.advance(5_000);
    await fleet.settle();
    expect(callsOf(fleet, "destroy")).toEqual(["destroy a/gridworld-1"]);
  });

  it("does not apply to the worlds of a lost server until the server is back", async () => {
    await using match = await playedMatch(
      { keepWhenEmpty: true, destroyWhenIdleFor: durationFromMs(20_000) },
      { serverLeaseMs: 10_000, lostServerMs: 60_000 },
    );
    const { fleet, server, world } = match;
    world.tickets.clear();
    await fleet.pass(2_000);
    for (let seconds = 0; seconds < 30; seconds++) {
      fleet.time.advance(1_000);
      await fleet.settle(1);
    }
    expect(callsOf(fleet, "destroy")).toEqual([]);
    await fleet.register(server);
    await fleet.settle();
    expect(callsOf(fleet, "destroy")).toEqual(["destroy a/gridworld-1"]);
  });

  it("ignores a report about an earlier world of the same name", async () => {
    await using match = await playedMatch({
      destroyAfterSequences: 1,
      destroyMode: DestroyMode.FORCE,
    });
    const { fleet, server, world } = match;
    world.sequences = 2;
    await fleet.report(server);
    await fleet.settle();
    expect(callsOf(fleet, "destroy")).toHaveLength(1);
    server.created = 0;
    const ids = await fleet.tickets(2);
    await fleet.settle();
    fleet.time.advance(1_000);
    await fleet.settle();
    expect([...server.worlds.keys()]).toEqual(["gridworld-1"]);
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(callsOf(fleet, "destroy")).toHaveLength(1);
  });

  it("keeps a world whose seats are assigned but not taken yet", async () => {
    await using match = await playedMatch({}, { joined: 0 });
    const { fleet } = match;
    await fleet.pass(20_000, 5_000);
    expect(callsOf(fleet, "destroy")).toEqual([]);
  });

  it("keeps a world as long as an agent without a ticket is in it", async () => {
    await using match = await playedMatch();
    const { fleet, world } = match;
    world.tickets.clear();
    world.guests = 1;
    await fleet.pass(20_000, 5_000);
    expect(callsOf(fleet, "destroy")).toEqual([]);
    world.guests = 0;
    await fleet.pass(1_000);
    expect(callsOf(fleet, "destroy")).toEqual(["destroy a/gridworld-1"]);
  });

  it("does not treat a world as empty while an agent is joining it", async () => {
    const drainTimeout = durationFromMs(20_000);
    await using match = await playedMatch({ destroyAfterSequences: 1, drainTimeout });
    const { fleet, ids } = match;
    const world = { name: "gridworld-1", type: "gridworld", agents: 0, sequences: 2, joins: 1 };
    const report = (ticketIds: readonly string[]) =>
      fleet.registry.renewServer({
        ...{ serverId: "a", epoch: 1n },
        worlds: [{ ...world, ticketIds: [...ticketIds] }],
      });
    await report(ids);
    await fleet.settle();
    expect(callsOf(fleet, "destroy")).toEqual([]);
    await report([]);
    await fleet.settle();
    expect(callsOf(fleet, "destroy")).toEqual(["destroy a/gridworld-1"]);
  });

  it("destroys a world whose agents joined and left without join tokens", async () => {
    await using fleet = await Fleet.open();
    const server = fleet.servers.add(new SimulatedServer("a"));
    const { epoch } = await fleet.registry.registerServer({
      serverId: server.id,
      address: server.address,
      capacity: { maxWorlds: 10, maxAgents: 40 },
      worldTypes: ["gridworld"],
    });
    const ids = await fleet.tickets(2);
    await fleet.settle();
    const report = async (agents: number, joins: number): Promise<void> => {
      const world = { name: "gridworld-1", type: "gridworld", agents, sequences: 1, joins };
      await fleet.registry.renewServer({ serverId: server.id, epoch, worlds: [world] });
      await fleet.settle();
    };
    await report(0, 0);
    expect(callsOf(fleet, "destroy")).toEqual([]);
    await report(2, 2);
    expect(callsOf(fleet, "destroy")).toEqual([]);
    await report(0, 2);
    expect(callsOf(fleet, "destroy")).toEqual(["destroy a/gridworld-1"]);
    expect(fleet.matchmaker.counts()).toMatchObject({ worlds: 0, matches: 0 });
    expect(await fleet.states(ids)).toEqual(["COMPLETED", "COMPLETED"]);
  });

  it.each([
    ["whose profile is deleted", (fleet: Fleet) => fleet.admin.deleteProfile({ name: "any" })],
    ["on a draining server", (fleet: Fleet) => fleet.registry.drainServer({ serverId: "a" })],
  ])("destroys spare worlds %s", async (_, change) => {
    await using fleet = await Fleet.open({ profiles: [profile({ precreatedWorlds: 2 })] });
    const server = await fleet.serve("a");
    await fleet.pass(2_000);
    expect(server.worlds.size).toBe(2);
    expect(callsOf(fleet, "destroy")).toEqual([]);
    await change(fleet);
    await fleet.pass(2_000);
    expect(server.worlds.size).toBe(0);
  });
});

const stores = storeKinds.filter(({ isHere }) => isHere);

describe.each(stores)("a world, with a store in $name,", (kind) => {
  it("is reset each time after resetAfterSequences sequences", async () => {
    await using data = await kind.createData();
    await using match = await playing(data, { resetAfterSequences: 2 });
    const { fleet, world } = match;
    world.sequences = 2;
    await fleet.pass(1_000);
    expect(world.resets).toBe(0);
    world.sequences = 3;
    await fleet.pass(3_000);
    expect(world.resets).toBe(1);
    world.sequences = 6;
    await fleet.pass(3_000);
    expect(world.resets).toBe(2);
  });

  it("is reset at each resetEvery interval while an agent plays", async () => {
    await using data = await kind.createData();
    await using match = await playing(data, {
      resetEvery: durationFromMs(60_000),
      keepWhenEmpty: true,
    });
    const { fleet, world } = match;
    await fleet.pass(50_000, 5_000);
    expect(world.resets).toBe(0);
    await fleet.pass(20_000, 5_000);
    expect(world.resets).toBe(1);
    world.tickets.clear();
    await fleet.pass(120_000, 5_000);
    expect(world.resets).toBe(1);
  });

  it("with keepWhenEmpty is destroyed after destroyWhenIdleFor", async () => {
    await using data = await kind.createData();
    await using match = await playing(data, {
      keepWhenEmpty: true,
      destroyWhenIdleFor: durationFromMs(20_000),
    });
    const { fleet, server, world } = match;
    world.tickets.clear();
    await fleet.pass(15_000, 5_000);
    expect(server.worlds.size).toBe(1);
    await fleet.pass(15_000, 5_000);
    expect(server.worlds.size).toBe(0);
  });

  it.each([
    [DestroyMode.FORCE, 0],
    [DestroyMode.DRAIN, 20_000],
    [DestroyMode.REFUSE, undefined],
  ])(
    "is destroyed after destroyAfterSequences sequences, in mode %i",
    async (destroyMode, afterMs) => {
      await using data = await kind.createData();
      await using match = await playing(data, {
        destroyAfterSequences: 1,
        destroyMode,
        drainTimeout: durationFromMs(20_000),
      });
      const { fleet, server, world, ids } = match;
      world.sequences = 2;
      await fleet.pass(2_000);
      expect(server.worlds.size).toBe(afterMs === 0 ? 0 : 1);
      await fleet.pass(25_000, 5_000);
      expect(server.worlds.size).toBe(afterMs === undefined ? 1 : 0);
      world.tickets.clear();
      await fleet.pass(2_000);
      expect(server.worlds.size).toBe(0);
      expect(await fleet.states(ids)).toEqual(["COMPLETED", "COMPLETED"]);
      expect(server.destroyed).toEqual(new Map([["gridworld-1", 1]]));
    },
  );

  it("is destroyed later if its first destroy fails", async () => {
    await using data = await kind.createData();
    await using match = await playing(data, {});
    const { fleet, server, world } = match;
    server.destroyError = new Error("not now");
    world.tickets.clear();
    await fleet.pass(3_000);
    expect(server.worlds.size).toBe(1);
    server.destroyError = undefined;
    await fleet.pass(10_000);
    expect(server.worlds.size).toBe(0);
    expect(fleet.matchmaker.counts()).toMatchObject({ worlds: 0, matches: 0 });
  });

  it("is created ahead of its match with precreatedWorlds, and the match is assigned without a create", async () => {
    await using data = await kind.createData();
    await using fleet = await fleetOn(data, { profiles: [profile({ precreatedWorlds: 2 })] });
    const server = await fleet.serve("a");
    await fleet.pass(2_000);
    expect(server.worlds.size).toBe(2);
    const ids = await fleet.tickets(2);
    await fleet.matchmaker.tick();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    await fleet.pass(2_000);
    expect(server.worlds.size).toBe(3);
  });
});

describe.each(stores)("a server, with a store in $name,", (kind) => {
  it("that drains gets no more worlds, and keeps the worlds with agents", async () => {
    await using data = await kind.createData();
    await using match = await playing(data, {});
    const { fleet, server, ids } = match;
    await fleet.registry.drainServer({ serverId: server.id });
    const more = await fleet.tickets(2);
    await fleet.pass(2_000);
    expect(await fleet.states([...ids, ...more])).toEqual([
      "JOINED",
      "JOINED",
      "WAITING",
      "WAITING",
    ]);
    const other = await fleet.serve("b");
    await fleet.pass(1_000);
    expect(other.worlds.size).toBe(1);
  });

  it("is filled before the next server gets a world", async () => {
    await using data = await kind.createData();
    await using fleet = await fleetOn(data);
    const servers = [await fleet.serve("a"), await fleet.serve("b"), await fleet.serve("c")];
    for (let match = 0; match < 12; match++) {
      await fleet.tickets(2);
      await fleet.settle(1);
    }
    expect(servers.map(({ worlds }) => worlds.size)).toEqual([10, 2, 0]);
  });

  it("that deregisters loses its matches immediately, and their tickets are matched elsewhere", async () => {
    await using data = await kind.createData();
    await using match = await playing(data, {});
    const { fleet, server, ids } = match;
    const other = await fleet.serve("b");
    server.isUp = false;
    await fleet.registry.deregisterServer({ serverId: server.id });
    await fleet.pass(1_000);
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(other.worlds.size).toBe(1);
  });
});
