// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { DestroyMode, WorldPolicySchema } from "@dm-env-rpc/protocol/matchmaker";
import { afterAll, describe, expect, it } from "vitest";
import { houseAt, profile } from "../../../testing/house.ts";
import type { SimulatedWorld } from "../../../testing/simulated-servers.ts";
import { type Place, stopStores, storeKinds } from "../../../testing/stores.ts";

afterAll(stopStores);

/** A match of two whose agents have joined, under a policy. */
async function playing(place: Place, policy: MessageInitShape<typeof WorldPolicySchema>) {
  const worldPolicy = create(WorldPolicySchema, policy);
  const house = await houseAt(place, { profiles: [profile({ worldPolicy })] });
  const server = await house.serve("a");
  const ids = await house.tickets(2);
  await house.settle();
  for (const id of ids) {
    await house.join(id);
  }
  await house.pass(1_000);
  const world = server.worlds.get("gridworld-1") as SimulatedWorld;
  return { house, server, world, ids, [Symbol.asyncDispose]: () => house[Symbol.asyncDispose]() };
}

const stores = storeKinds.filter(({ isHere }) => isHere);

describe.each(stores)("a world, with a store in $name,", (kind) => {
  it("is reset after so many sequences, each time", async () => {
    await using place = await kind.place();
    await using match = await playing(place, { resetAfterSequences: 2 });
    const { house, world } = match;
    world.sequences = 2;
    await house.pass(1_000);
    expect(world.resets).toBe(0);
    world.sequences = 3;
    await house.pass(3_000);
    expect(world.resets).toBe(1);
    world.sequences = 6;
    await house.pass(3_000);
    expect(world.resets).toBe(2);
  });

  it("is reset every so many minutes while somebody plays", async () => {
    await using place = await kind.place();
    await using match = await playing(place, {
      resetEvery: durationFromMs(60_000),
      keepWhenEmpty: true,
    });
    const { house, world } = match;
    await house.pass(50_000, 5_000);
    expect(world.resets).toBe(0);
    await house.pass(20_000, 5_000);
    expect(world.resets).toBe(1);
    world.tickets.clear();
    await house.pass(120_000, 5_000);
    expect(world.resets).toBe(1);
  });

  it("that is kept when it is empty ends when it has been idle", async () => {
    await using place = await kind.place();
    await using match = await playing(place, {
      keepWhenEmpty: true,
      destroyWhenIdleFor: durationFromMs(20_000),
    });
    const { house, server, world } = match;
    world.tickets.clear();
    await house.pass(15_000, 5_000);
    expect(server.worlds.size).toBe(1);
    await house.pass(15_000, 5_000);
    expect(server.worlds.size).toBe(0);
  });

  it.each([
    [DestroyMode.FORCE, 0],
    [DestroyMode.DRAIN, 20_000],
    [DestroyMode.REFUSE, undefined],
  ])("that has had its sequences is destroyed in mode %i", async (destroyMode, afterMs) => {
    await using place = await kind.place();
    await using match = await playing(place, {
      destroyAfterSequences: 1,
      destroyMode,
      drainTimeout: durationFromMs(20_000),
    });
    const { house, server, world, ids } = match;
    world.sequences = 2;
    await house.pass(2_000);
    expect(server.worlds.size).toBe(afterMs === 0 ? 0 : 1);
    await house.pass(25_000, 5_000);
    expect(server.worlds.size).toBe(afterMs === undefined ? 1 : 0);
    world.tickets.clear();
    await house.pass(2_000);
    expect(server.worlds.size).toBe(0);
    expect(await house.states(ids)).toEqual(["COMPLETED", "COMPLETED"]);
    expect(server.destroyed).toEqual(new Map([["gridworld-1", 1]]));
  });

  it("whose destroy is refused is tried again, later", async () => {
    await using place = await kind.place();
    await using match = await playing(place, {});
    const { house, server, world } = match;
    server.destroyError = new Error("not now");
    world.tickets.clear();
    await house.pass(3_000);
    expect(server.worlds.size).toBe(1);
    server.destroyError = undefined;
    await house.pass(10_000);
    expect(server.worlds.size).toBe(0);
    expect(house.matchmaker.counts()).toMatchObject({ worlds: 0, matches: 0 });
  });

  it("is made ahead on request, and its match is assigned without a create", async () => {
    await using place = await kind.place();
    await using house = await houseAt(place, { profiles: [profile({ precreatedWorlds: 2 })] });
    const server = await house.serve("a");
    await house.pass(2_000);
    expect(server.worlds.size).toBe(2);
    const ids = await house.tickets(2);
    await house.matchmaker.tick();
    expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    await house.pass(2_000);
    expect(server.worlds.size).toBe(3);
  });
});

describe.each(stores)("a server, with a store in $name,", (kind) => {
  it("that drains gets no more worlds, and keeps those that are played", async () => {
    await using place = await kind.place();
    await using match = await playing(place, {});
    const { house, server, ids } = match;
    await house.registry.drainServer({ serverId: server.id });
    const more = await house.tickets(2);
    await house.pass(2_000);
    expect(await house.states([...ids, ...more])).toEqual([
      "JOINED",
      "JOINED",
      "WAITING",
      "WAITING",
    ]);
    const other = await house.serve("b");
    await house.pass(1_000);
    expect(other.worlds.size).toBe(1);
  });

  it("is filled before the next one is", async () => {
    await using place = await kind.place();
    await using house = await houseAt(place);
    const servers = [await house.serve("a"), await house.serve("b"), await house.serve("c")];
    for (let match = 0; match < 12; match++) {
      await house.tickets(2);
      await house.settle(1);
    }
    expect(servers.map(({ worlds }) => worlds.size)).toEqual([10, 2, 0]);
  });

  it("that deregisters lets go of its matches at once", async () => {
    await using place = await kind.place();
    await using match = await playing(place, {});
    const { house, server, ids } = match;
    const other = await house.serve("b");
    server.isUp = false;
    await house.registry.deregisterServer({ serverId: server.id });
    await house.pass(1_000);
    expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(other.worlds.size).toBe(1);
  });
});
