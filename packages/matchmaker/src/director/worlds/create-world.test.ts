// SPDX-License-Identifier: Apache-2.0
import { Code } from "@connectrpc/connect";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { expect, it } from "vitest";
import { House, profile } from "../../../testing/house.ts";

it("a create names the type of the world where its server has several", async () => {
  await using house = await House.open();
  const several = await house.serve("a", { worldTypes: ["other", "gridworld"], maxWorlds: 1 });
  const one = await house.serve("b", { maxWorlds: 1 });
  const ids = await house.tickets(4);
  await house.settle();
  expect(await house.states(ids)).toEqual(ids.map(() => "ASSIGNED"));
  expect(several.namedTypes).toEqual(["gridworld"]);
  expect(one.namedTypes).toEqual([undefined]);
});

it("a match whose profile is deleted before its world is created gives back its tickets, and says why", async () => {
  await using house = await House.open({ settings: { maxCreatesPerServer: 1 } });
  let create = (): void => {};
  const created = new Promise<void>((resolve) => {
    create = resolve;
  });
  house.servers.pace = (what) => (what === "create" ? created : Promise.resolve());
  const server = await house.serve("a");
  const ids = await house.tickets(4);
  await house.matchmaker.tick();
  expect(await house.states(ids)).toEqual(ids.map(() => "MATCHED"));
  await house.admin.deleteProfile({ name: "any" });
  create();
  await house.pass(2_000);
  expect(server.created).toBe(1);
  expect(await house.states(ids.slice(2))).toEqual(["WAITING", "WAITING"]);
  expect((await house.ticket(ids[2] ?? "")).error).toMatchObject({
    code: Code.Unavailable,
    message: "the profile was deleted before the world was created",
  });
});

it("a create that fails is told of, and its server is left alone for longer each time in a row", async () => {
  await using house = await House.open({ settings: { cooldownMs: 1_000 } });
  const server = await house.serve("a");
  const full = () => new DmEnvRpcError("RESOURCE_EXHAUSTED", "the server is full");
  const failures = () =>
    house.events.filter((event) => event.kind === "world-failed" && event.what === "create");
  server.createErrors.push(full(), full());
  await house.tickets(2);
  await house.settle();
  expect(failures()).toMatchObject([{ serverId: "a", error: { code: "RESOURCE_EXHAUSTED" } }]);
  await house.pass(1_000);
  expect(failures()).toHaveLength(2);
  await house.pass(1_000);
  expect(server.created).toBe(0);
  await house.pass(1_000);
  expect(server.created).toBe(1);
  // A create that succeeds ends the row.
  server.createErrors.push(full());
  await house.tickets(2);
  await house.settle();
  expect(failures()).toHaveLength(3);
  await house.pass(1_000);
  expect(server.created).toBe(2);
});

it("a seat that is filled is told of once, with how long its ticket waited", async () => {
  await using house = await House.open({ profiles: [profile({ backfill: true })] });
  const server = await house.serve("a");
  const [first = "", second = ""] = await house.tickets(2);
  await house.settle();
  for (const id of [first, second]) {
    await house.join(id);
  }
  await house.pass(1_000);
  const [late = ""] = await house.tickets(1);
  house.time.advance(2_000);
  server.worlds.get("gridworld-1")?.tickets.delete(first);
  await house.reportAll();
  await house.settle();
  await house.reportAll();
  await house.settle();
  expect(await house.states([late])).toEqual(["ASSIGNED"]);
  const { matchId } = await house.ticket(late);
  const assigned = house.events.filter(({ kind }) => kind === "assigned");
  expect(assigned).toHaveLength(2);
  expect(assigned[1]).toMatchObject({
    matchId,
    profile: "any",
    serverId: "a",
    worldName: "gridworld-1",
    tickets: 1,
    waitedMs: [2_000],
  });
});
