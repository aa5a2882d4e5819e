// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { expect, it } from "vitest";
import { House, profile } from "../../../testing/house.ts";

const goneError = () => new DmEnvRpcError("NOT_FOUND", "there is no such world");

const failuresOf = ({ events }: House): string[] =>
  events.flatMap((event) => (event.kind === "world-failed" ? [event.what] : []));

/** Opens a house in which a server deregisters while a create on it is in progress. */
async function abandoned() {
  const house = await House.open();
  let create = (): void => {};
  const created = new Promise<void>((resolve) => {
    create = resolve;
  });
  house.servers.pace = (what) => (what === "create" ? created : Promise.resolve());
  const server = await house.serve("a");
  const ids = await house.tickets(2);
  await house.matchmaker.tick();
  await house.registry.deregisterServer({ serverId: server.id });
  house.time.advance(1_000);
  await house.matchmaker.tick();
  expect(await house.states(ids)).toEqual(["WAITING", "WAITING"]);
  expect(house.matchmaker.counts()).toMatchObject({ worlds: 0, matches: 0 });
  const finish = async (): Promise<void> => {
    create();
    await house.settle();
  };
  return { house, server, finish, [Symbol.asyncDispose]: () => house[Symbol.asyncDispose]() };
}

it("a world that is created after its match has ended is destroyed", async () => {
  await using create = await abandoned();
  await create.finish();
  expect(create.server.created).toBe(1);
  expect(create.server.worlds.size).toBe(0);
  expect(failuresOf(create.house)).toEqual([]);
});

it.each([
  ["reported if it fails", () => new Error("not now"), ["destroy"]],
  ["not reported if the world no longer exists", goneError, []],
])("the destroy of a world whose match has ended is %s", async (_, error, failures) => {
  await using create = await abandoned();
  create.server.destroyError = error();
  await create.finish();
  expect(failuresOf(create.house)).toEqual(failures);
});

it("a failed destroy of an orphaned world is repeated after a cooldown", async () => {
  await using house = await House.open({ settings: { orphanMs: 10_000, cooldownMs: 4_000 } });
  const server = await house.serve("a");
  server.create("gridworld");
  server.destroyError = new Error("not now");
  await house.pass(9_000);
  expect(failuresOf(house)).toEqual([]);
  await house.pass(3_000);
  expect(failuresOf(house)).toEqual(["destroy"]);
  await house.pass(3_000);
  expect(failuresOf(house)).toEqual(["destroy", "destroy"]);
  server.destroyError = undefined;
  await house.pass(10_000);
  expect(server.worlds.size).toBe(0);
  expect(house.events).toContainEqual({
    kind: "world-destroyed",
    serverId: "a",
    worldName: "gridworld-1",
  });
});

it("an orphaned world that no longer exists when it is destroyed is not destroyed again", async () => {
  await using house = await House.open({ settings: { orphanMs: 1_000 } });
  const server = await house.serve("a");
  server.create("gridworld");
  server.destroyError = goneError();
  await house.pass(10_000);
  expect(failuresOf(house)).toEqual([]);
  const destroyed = house.events.filter(({ kind }) => kind === "world-destroyed");
  expect(destroyed).toHaveLength(1);
});

it("spare worlds end when their profile requests fewer", async () => {
  const ahead = (precreatedWorlds: number) => profile({ precreatedWorlds });
  await using house = await House.open({ profiles: [ahead(3)] });
  const server = await house.serve("a");
  await house.pass(2_000);
  expect(server.worlds.size).toBe(3);
  await house.admin.putProfile({ profile: ahead(1) });
  await house.pass(2_000);
  expect(server.worlds.size).toBe(1);
  expect(server.created).toBe(3);
});

it("a surplus spare world that is still being created is destroyed after it is created", async () => {
  const ahead = (precreatedWorlds: number) => profile({ precreatedWorlds });
  await using house = await House.open({ profiles: [ahead(1)] });
  let create = (): void => {};
  const created = new Promise<void>((resolve) => {
    create = resolve;
  });
  house.servers.pace = (what) => (what === "create" ? created : Promise.resolve());
  const server = await house.serve("a");
  await house.matchmaker.tick();
  await house.admin.putProfile({ profile: ahead(0) });
  await house.matchmaker.tick();
  expect(house.matchmaker.counts().worlds).toBe(1);
  create();
  await house.pass(2_000);
  expect(server.destroyed).toEqual(new Map([["gridworld-1", 1]]));
  expect(house.matchmaker.counts().worlds).toBe(0);
});
