// SPDX-License-Identifier: Apache-2.0
import { Code } from "@connectrpc/connect";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { expect, it } from "vitest";
import { callsOf, eventsOf, House, profile } from "../../../testing/house.ts";
import { startMs } from "../../../testing/start-ms.ts";
import { sharedStore } from "../../../testing/wrapped-stores.ts";
import { memoryStore } from "../../store/memory-store.ts";

it("a create names the world type only if the server has several types", async () => {
  await using house = await House.open();
  const several = await house.serve("a", { worldTypes: ["other", "gridworld"], maxWorlds: 1 });
  const one = await house.serve("b", { maxWorlds: 1 });
  const ids = await house.tickets(4);
  await house.settle();
  expect(await house.states(ids)).toEqual(ids.map(() => "ASSIGNED"));
  expect(several.namedTypes).toEqual(["gridworld"]);
  expect(one.namedTypes).toEqual([undefined]);
});

/** Opens a house in which 60 worlds are to be created on server "a" at once. */
async function crowded(options: Parameters<typeof House.open>[0] = {}) {
  const settings = { maxCreatesPerServer: 100 };
  const house = await House.open({ profiles: [profile({ count: 1 })], settings, ...options });
  const server = await house.serve("a", { maxWorlds: 100, maxAgents: 100 });
  await house.tickets(60);
  return { house, server, [Symbol.asyncDispose]: () => house[Symbol.asyncDispose]() };
}

it("a tick starts the first creates, and the others are started while the next ticks may run", async () => {
  await using scene = await crowded();
  const { house, server } = scene;
  await house.matchmaker.tick();
  expect(callsOf(house, "create")).toHaveLength(25);
  await house.matchmaker.settled();
  expect(server.created).toBe(60);
});

it("a matchmaker that no longer leads starts no more creates", async () => {
  const time = manualTime(startMs);
  const store = memoryStore({ time });
  await using other = await House.open({ time, store: sharedStore(store) });
  await using scene = await crowded({ time, store: sharedStore(store) });
  const { house, server } = scene;
  other.servers.add(server);
  await house.matchmaker.tick();
  time.advance(60_000);
  await other.matchmaker.tick();
  expect(other.matchmaker.isLeading).toBe(true);
  await house.matchmaker.tick();
  await house.matchmaker.settled();
  expect(callsOf(house, "create")).toHaveLength(25);
});

it("the tickets of a match whose profile is deleted before its world is created wait again, with the reason", async () => {
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

it("a failed create is reported, and each failure in a row doubles the pause of its server", async () => {
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
  // A create that succeeds ends the failures in a row.
  server.createErrors.push(full());
  await house.tickets(2);
  await house.settle();
  expect(failures()).toHaveLength(3);
  await house.pass(1_000);
  expect(server.created).toBe(2);
});

it("a filled seat is reported once, with the waiting time of its ticket", async () => {
  await using house = await House.open({ profiles: [profile({ backfill: true })] });
  const server = await house.serve("a");
  const [first = "", second = ""] = await house.tickets(2);
  await house.settle();
  await house.joinAll([first, second]);
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

/** Errors of a create: the world fails, its settings are refused, its server cannot be reached. */
const worldFault = () => new DmEnvRpcError("INTERNAL", "the world did not start");
const settingsFault = () => new DmEnvRpcError("INVALID_ARGUMENT", "there is no such map");
const unreachable = () =>
  new DmEnvRpcError("UNAVAILABLE", "connection refused", { origin: "connection" });

it("a world that is created for a match is reported, and so are its assignments", async () => {
  await using house = await House.open();
  await house.serve("a");
  const ids = await house.tickets(2);
  await house.settle();
  const { matchId } = await house.ticket(ids[0] ?? "");
  expect(eventsOf(house, "world-created")).toEqual([
    { kind: "world-created", serverId: "a", worldName: "gridworld-1" },
  ]);
  expect(eventsOf(house, "assigned")).toEqual([
    {
      kind: "assigned",
      matchId,
      profile: "any",
      serverId: "a",
      worldName: "gridworld-1",
      tickets: 2,
      waitedMs: [1, 0],
    },
  ]);
});

it("tickets of a profile whose settings are refused fail with the reason", async () => {
  await using house = await House.open();
  const server = await house.serve("a");
  server.createErrors.push(settingsFault());
  const ids = await house.tickets(2);
  await house.settle();
  expect(await house.states(ids)).toEqual(["FAILED", "FAILED"]);
  expect((await house.ticket(ids[0] ?? "")).error).toMatchObject({
    code: Code.FailedPrecondition,
    message: 'the world settings of profile "any" were refused: there is no such map',
  });
  // Neither the server nor its other worlds are at fault.
  const more = await house.tickets(2);
  await house.settle();
  expect(await house.states(more)).toEqual(["ASSIGNED", "ASSIGNED"]);
});

it("refused settings pause the creation of spare worlds", async () => {
  await using house = await House.open({
    profiles: [profile({ precreatedWorlds: 1 })],
    settings: { cooldownMs: 10_000 },
  });
  const server = await house.serve("a");
  server.createErrors.push(settingsFault());
  await house.pass(5_000);
  expect(callsOf(house, "create")).toHaveLength(1);
  await house.pass(10_000);
  expect(server.created).toBe(1);
});

it("tickets fail with the reason after maxAttempts creates of their world have failed", async () => {
  await using house = await House.open({ settings: { maxAttempts: 3, cooldownMs: 1_000 } });
  const server = await house.serve("a");
  server.createErrors.push(worldFault(), worldFault(), worldFault());
  const ids = await house.tickets(2);
  await house.settle();
  expect(await house.states(ids)).toEqual(["WAITING", "WAITING"]);
  expect((await house.ticket(ids[0] ?? "")).error).toMatchObject({
    code: Code.Unavailable,
    message: "the world did not start",
  });
  await house.pass(2_000);
  expect(await house.states(ids)).toEqual(["WAITING", "WAITING"]);
  await house.pass(3_000);
  expect(await house.states(ids)).toEqual(["FAILED", "FAILED"]);
  expect((await house.ticket(ids[0] ?? "")).error).toMatchObject({
    code: Code.FailedPrecondition,
    message:
      'a world for profile "any" could not be created in 3 attempts: the world did not start',
  });
  expect(server.created).toBe(0);
});

it("creates that fail because a server is full do not count as attempts", async () => {
  await using house = await House.open({ settings: { maxAttempts: 1, cooldownMs: 1_000 } });
  const server = await house.serve("a");
  server.createErrors.push(new DmEnvRpcError("RESOURCE_EXHAUSTED", "the server is full"));
  const ids = await house.tickets(2);
  await house.settle();
  expect(await house.states(ids)).toEqual(["WAITING", "WAITING"]);
  await house.pass(2_000);
  expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
});

it("a world type that fails to start on a server is paused there, and other types are not", async () => {
  await using house = await House.open({
    profiles: [profile({ worldType: "bad" }), profile({ name: "good", worldType: "good" })],
    settings: { cooldownMs: 10_000 },
  });
  const server = await house.serve("a", { worldTypes: ["bad", "good"] });
  server.createErrors.push(worldFault());
  const bad = await house.tickets(2, { profile: "any" });
  await house.settle();
  const good = await house.tickets(2, { profile: "good" });
  await house.pass(5_000);
  expect(await house.states([...bad, ...good])).toEqual([
    "WAITING",
    "WAITING",
    "ASSIGNED",
    "ASSIGNED",
  ]);
  await house.pass(6_000);
  expect(await house.states(bad)).toEqual(["ASSIGNED", "ASSIGNED"]);
  // A create that succeeds ends the failures in a row.
  server.createErrors.push(worldFault());
  const last = await house.tickets(2, { profile: "any" });
  await house.pass(11_000);
  expect(await house.states(last)).toEqual(["ASSIGNED", "ASSIGNED"]);
});

it.each([
  ["cannot be reached is not used before it reports again", unreachable(), 0],
  ["is full is used again after its cooldown", new DmEnvRpcError("RESOURCE_EXHAUSTED", "full"), 1],
])("a server that %s", async (_, error, created) => {
  await using house = await House.open({ settings: { cooldownMs: 1_000 } });
  const server = await house.serve("a");
  server.createErrors.push(error);
  await house.tickets(2);
  await house.settle();
  house.time.advance(2_000);
  await house.settle();
  expect(server.created).toBe(created);
  await house.report(server);
  await house.settle();
  expect(server.created).toBe(1);
});

it("tickets that wait again after a failed create may do so for awayMs without being watched or read", async () => {
  await using house = await House.open({ settings: { ticketLeaseMs: 2_000, awayMs: 20_000 } });
  const server = await house.serve("a");
  const release = house.servers.hold("create");
  await house.tickets(2);
  await house.matchmaker.tick();
  server.isUp = false;
  house.time.advance(5_000);
  release();
  await house.settle();
  for (let second = 0; second < 15; second++) {
    house.time.advance(1_000);
    await house.settle(1);
  }
  expect(house.matchmaker.counts().tickets).toMatchObject({ waiting: 2, failed: 0 });
});

it("matches that were placed on a server before it drains still get their worlds", async () => {
  await using house = await House.open({ settings: { maxCreatesPerServer: 1 } });
  const release = house.servers.hold("create");
  const server = await house.serve("a");
  const ids = await house.tickets(4);
  await house.matchmaker.tick();
  expect(callsOf(house, "create")).toHaveLength(1);
  await house.registry.drainServer({ serverId: "a" });
  release();
  await house.pass(2_000);
  expect(server.created).toBe(2);
  expect(await house.states(ids)).toEqual(ids.map(() => "ASSIGNED"));
});

it("a server has at most maxCreatesPerServer creates in progress", async () => {
  await using house = await House.open({ settings: { maxCreatesPerServer: 2 } });
  const release = house.servers.hold("create");
  await house.serve("a");
  await house.tickets(10);
  await house.matchmaker.tick();
  await house.matchmaker.tick();
  expect(callsOf(house, "create")).toHaveLength(2);
  release();
  await house.settle(5);
  expect(callsOf(house, "create")).toHaveLength(5);
});
