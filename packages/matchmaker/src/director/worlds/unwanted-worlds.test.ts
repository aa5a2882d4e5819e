// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { expect, it } from "vitest";
import { Fleet, profile } from "../../../testing/fleet.ts";

const goneError = () => new DmEnvRpcError("NOT_FOUND", "there is no such world");

const failuresOf = ({ events }: Fleet): string[] =>
  events.flatMap((event) => (event.kind === "world-failed" ? [event.what] : []));

/** Opens a fleet in which a server deregisters while a create on it is in progress. */
async function abandoned() {
  const fleet = await Fleet.open();
  let create = (): void => {};
  const created = new Promise<void>((resolve) => {
    create = resolve;
  });
  fleet.servers.pace = (what) => (what === "create" ? created : Promise.resolve());
  const server = await fleet.serve("a");
  const ids = await fleet.tickets(2);
  await fleet.matchmaker.tick();
  await fleet.registry.deregisterServer({ serverId: server.id });
  fleet.time.advance(1_000);
  await fleet.matchmaker.tick();
  expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
  expect(fleet.matchmaker.counts()).toMatchObject({ worlds: 0, matches: 0 });
  const finish = async (): Promise<void> => {
    create();
    await fleet.settle();
  };
  return { fleet, server, finish, [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose]() };
}

it("a world that is created after its match has ended is destroyed", async () => {
  await using create = await abandoned();
  await create.finish();
  expect(create.server.created).toBe(1);
  expect(create.server.worlds.size).toBe(0);
  expect(failuresOf(create.fleet)).toEqual([]);
});

it.each([
  ["reported if it fails", () => new Error("not now"), ["destroy"]],
  ["not reported if the world no longer exists", goneError, []],
])("the destroy of a world whose match has ended is %s", async (_, error, failures) => {
  await using create = await abandoned();
  create.server.destroyError = error();
  await create.finish();
  expect(failuresOf(create.fleet)).toEqual(failures);
});

it("a failed destroy of an orphaned world is repeated after a cooldown", async () => {
  await using fleet = await Fleet.open({ settings: { orphanMs: 10_000, cooldownMs: 4_000 } });
  const server = await fleet.serve("a");
  server.create("gridworld");
  server.destroyError = new Error("not now");
  await fleet.pass(9_000);
  expect(failuresOf(fleet)).toEqual([]);
  await fleet.pass(3_000);
  expect(failuresOf(fleet)).toEqual(["destroy"]);
  await fleet.pass(3_000);
  expect(failuresOf(fleet)).toEqual(["destroy", "destroy"]);
  server.destroyError = undefined;
  await fleet.pass(10_000);
  expect(server.worlds.size).toBe(0);
  expect(fleet.events).toContainEqual({
    kind: "world-destroyed",
    serverId: "a",
    worldName: "gridworld-1",
  });
});

it("an orphaned world that no longer exists when it is destroyed is not destroyed again", async () => {
  await using fleet = await Fleet.open({ settings: { orphanMs: 1_000 } });
  const server = await fleet.serve("a");
  server.create("gridworld");
  server.destroyError = goneError();
  await fleet.pass(10_000);
  expect(failuresOf(fleet)).toEqual([]);
  const destroyed = fleet.events.filter(({ kind }) => kind === "world-destroyed");
  expect(destroyed).toHaveLength(1);
});

it("spare worlds end when their profile requests fewer", async () => {
  const ahead = (precreatedWorlds: number) => profile({ precreatedWorlds });
  await using fleet = await Fleet.open({ profiles: [ahead(3)] });
  const server = await fleet.serve("a");
  await fleet.pass(2_000);
  expect(server.worlds.size).toBe(3);
  await fleet.admin.putProfile({ profile: ahead(1) });
  await fleet.pass(2_000);
  expect(server.worlds.size).toBe(1);
  expect(server.created).toBe(3);
});

it("a surplus spare world that is still being created is destroyed after it is created", async () => {
  const ahead = (precreatedWorlds: number) => profile({ precreatedWorlds });
  await using fleet = await Fleet.open({ profiles: [ahead(1)] });
  let create = (): void => {};
  const created = new Promise<void>((resolve) => {
    create = resolve;
  });
  fleet.servers.pace = (what) => (what === "create" ? created : Promise.resolve());
  const server = await fleet.serve("a");
  await fleet.matchmaker.tick();
  await fleet.admin.putProfile({ profile: ahead(0) });
  await fleet.matchmaker.tick();
  expect(fleet.matchmaker.counts().worlds).toBe(1);
  create();
  await fleet.pass(2_000);
  expect(server.destroyed).toEqual(new Map([["gridworld-1", 1]]));
  expect(fleet.matchmaker.counts().worlds).toBe(0);
});
