// SPDX-License-Identifier: Apache-2.0
import { Code } from "@connectrpc/connect";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { callsOf, eventsOf, Fleet, profile } from "../../../testing/fleet.ts";
import { startMs } from "../../../testing/start-ms.ts";
import { sharedStore } from "../../../testing/wrapped-stores.ts";
import { memoryStore } from "../../store/memory-store.ts";

it("a create names the world type only if the server has several types", async () => {
  await using fleet = await Fleet.open();
  const several = await fleet.serve("a", { worldTypes: ["other", "gridworld"], maxWorlds: 1 });
  const one = await fleet.serve("b", { maxWorlds: 1 });
  const ids = await fleet.tickets(4);
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(ids.map(() => "ASSIGNED"));
  expect(several.namedTypes).toEqual(["gridworld"]);
  expect(one.namedTypes).toEqual([undefined]);
});

/** Opens a fleet in which 60 worlds are to be created on server "a" at once. */
async function crowded(options: Parameters<typeof Fleet.open>[0] = {}) {
  const settings = { maxCreatesPerServer: 100 };
  const fleet = await Fleet.open({ profiles: [profile({ count: 1 })], settings, ...options });
  const server = await fleet.serve("a", { maxWorlds: 100, maxAgents: 100 });
  await fleet.tickets(60);
  return { fleet, server, [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose]() };
}

it("a tick starts the first creates, and the others are started while the next ticks may run", async () => {
  await using scene = await crowded();
  const { fleet, server } = scene;
  await fleet.matchmaker.tick();
  expect(callsOf(fleet, "create")).toHaveLength(25);
  await fleet.matchmaker.settled();
  expect(server.created).toBe(60);
});

it("a matchmaker that no longer leads starts no more creates", async () => {
  const time = manualTime(startMs);
  const store = memoryStore({ time });
  await using other = await Fleet.open({ time, store: sharedStore(store) });
  await using scene = await crowded({ time, store: sharedStore(store) });
  const { fleet, server } = scene;
  other.servers.add(server);
  await fleet.matchmaker.tick();
  time.advance(60_000);
  await other.matchmaker.tick();
  expect(other.matchmaker.isLeading).toBe(true);
  await fleet.matchmaker.tick();
  await fleet.matchmaker.settled();
  expect(callsOf(fleet, "create")).toHaveLength(25);
});

it("the tickets of a match whose profile is deleted before its world is created wait again, with the reason", async () => {
  await using fleet = await Fleet.open({ settings: { maxCreatesPerServer: 1 } });
  let create = (): void => {};
  const created = new Promise<void>((resolve) => {
    create = resolve;
  });
  fleet.servers.pace = (what) => (what === "create" ? created : Promise.resolve());
  const server = await fleet.serve("a");
  const ids = await fleet.tickets(4);
  await fleet.matchmaker.tick();
  expect(await fleet.states(ids)).toEqual(ids.map(() => "MATCHED"));
  await fleet.admin.deleteProfile({ name: "any" });
  create();
  await fleet.pass(2_000);
  expect(server.created).toBe(1);
  expect(await fleet.states(ids.slice(2))).toEqual(["WAITING", "WAITING"]);
  expect((await fleet.ticket(ids[2] ?? "")).error).toMatchObject({
    code: Code.Unavailable,
    message: "the profile was deleted before the world was created",
  });
});

it("a failed create is reported, and each failure in a row doubles the pause of its server", async () => {
  await using fleet = await Fleet.open({ settings: { cooldownMs: 1_000 } });
  const server = await fleet.serve("a");
  const full = () => new DmEnvRpcError("RESOURCE_EXHAUSTED", "the server is full");
  const failures = () =>
    fleet.events.filter((event) => event.kind === "world-failed" && event.what === "create");
  server.createErrors.push(full(), full());
  await fleet.tickets(2);
  await fleet.settle();
  expect(failures()).toMatchObject([{ serverId: "a", error: { code: "RESOURCE_EXHAUSTED" } }]);
  await fleet.pass(1_000);
  expect(failures()).toHaveLength(2);
  await fleet.pass(1_000);
  expect(server.created).toBe(0);
  await fleet.pass(1_000);
  expect(server.created).toBe(1);
  // A create that succeeds ends the failures in a row.
  server.createErrors.push(full());
  await fleet.tickets(2);
  await fleet.settle();
  expect(failures()).toHaveLength(3);
  await fleet.pass(1_000);
  expect(server.created).toBe(2);
});

it("a filled seat is reported once, with the waiting time of its ticket", async () => {
  await using fleet = await Fleet.open({ profiles: [profile({ backfill: true })] });
  const server = await fleet.serve("a");
  const [first = "", second = ""] = await fleet.tickets(2);
  await fleet.settle();
  await fleet.joinAll([first, second]);
  await fleet.pass(1_000);
  const [late = ""] = await fleet.tickets(1);
  fleet.time.advance(2_000);
  server.worlds.get("gridworld-1")?.tickets.delete(first);
  await fleet.reportAll();
  await fleet.settle();
  await fleet.reportAll();
  await fleet.settle();
  expect(await fleet.states([late])).toEqual(["ASSIGNED"]);
  const { matchId } = await fleet.ticket(late);
  const assigned = fleet.events.filter(({ kind }) => kind === "assigned");
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
  await using fleet = await Fleet.open();
  await fleet.serve("a");
  const ids = await fleet.tickets(2);
  await fleet.settle();
  const { matchId } = await fleet.ticket(ids[0] ?? "");
  expect(eventsOf(fleet, "world-created")).toEqual([
    { kind: "world-created", serverId: "a", worldName: "gridworld-1" },
  ]);
  expect(eventsOf(fleet, "assigned")).toEqual([
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
  await using fleet = await Fleet.open();
  const server = await fleet.serve("a");
  server.createErrors.push(settingsFault());
  const ids = await fleet.tickets(2);
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(["FAILED", "FAILED"]);
  expect((await fleet.ticket(ids[0] ?? "")).error).toMatchObject({
    code: Code.FailedPrecondition,
    message:
      'the world settings of profile "any" were refused: there is no such map; choose another profile, or tell the operator of the matchmaker',
  });
  // Neither the server nor its other worlds are at fault.
  const more = await fleet.tickets(2);
  await fleet.settle();
  expect(await fleet.states(more)).toEqual(["ASSIGNED", "ASSIGNED"]);
});

it("refused settings pause the creation of spare worlds", async () => {
  await using fleet = await Fleet.open({
    profiles: [profile({ precreatedWorlds: 1 })],
    settings: { cooldownMs: 10_000 },
  });
  const server = await fleet.serve("a");
  server.createErrors.push(settingsFault());
  await fleet.pass(5_000);
  expect(callsOf(fleet, "create")).toHaveLength(1);
  await fleet.pass(10_000);
  expect(server.created).toBe(1);
});

it("tickets fail with the reason after maxAttempts creates of their world have failed", async () => {
  await using fleet = await Fleet.open({ settings: { maxAttempts: 3, cooldownMs: 1_000 } });
  const server = await fleet.serve("a");
  server.createErrors.push(worldFault(), worldFault(), worldFault());
  const ids = await fleet.tickets(2);
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
  expect((await fleet.ticket(ids[0] ?? "")).error).toMatchObject({
    code: Code.Unavailable,
    message:
      "the match's world could not be created: the world did not start; the ticket waits for another one",
  });
  await fleet.pass(2_000);
  expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
  await fleet.pass(3_000);
  expect(await fleet.states(ids)).toEqual(["FAILED", "FAILED"]);
  expect((await fleet.ticket(ids[0] ?? "")).error).toMatchObject({
    code: Code.FailedPrecondition,
    message:
      'a world for profile "any" could not be created in 3 attempts: the world did not start; create another ticket later',
  });
  expect(server.created).toBe(0);
});

it("creates that fail because a server is full do not count as attempts", async () => {
  await using fleet = await Fleet.open({ settings: { maxAttempts: 1, cooldownMs: 1_000 } });
  const server = await fleet.serve("a");
  server.createErrors.push(new DmEnvRpcError("RESOURCE_EXHAUSTED", "the server is full"));
  const ids = await fleet.tickets(2);
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
  await fleet.pass(2_000);
  expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
});

it("a world whose server gives it a name that is too long is destroyed, and its tickets wait for another server", async () => {
  await using fleet = await Fleet.open();
  const server = await fleet.serve("a");
  server.namePrefix = "x".repeat(190);
  const ids = await fleet.tickets(2);
  await fleet.settle();
  expect([...server.destroyed.values()]).toEqual([1]);
  expect(server.worlds.size).toBe(0);
  expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
  expect(eventsOf(fleet, "world-failed")).toMatchObject([
    {
      what: "create",
      error: {
        message: expect.stringMatching(
          /name of the created world: expected at most 200 characters, received 201 \("x{100}…"\)/,
        ),
      },
    },
  ]);
});

it("a world type that fails to start on a server is paused there, and other types are not", async () => {
  await using fleet = await Fleet.open({
    profiles: [profile({ worldType: "bad" }), profile({ name: "good", worldType: "good" })],
    settings: { cooldownMs: 10_000 },
  });
  const server = await fleet.serve("a", { worldTypes: ["bad", "good"] });
  server.createErrors.push(worldFault());
  const bad = await fleet.tickets(2, { profile: "any" });
  await fleet.settle();
  const good = await fleet.tickets(2, { profile: "good" });
  await fleet.pass(5_000);
  expect(await fleet.states([...bad, ...good])).toEqual([
    "WAITING",
    "WAITING",
    "ASSIGNED",
    "ASSIGNED",
  ]);
  await fleet.pass(6_000);
  expect(await fleet.states(bad)).toEqual(["ASSIGNED", "ASSIGNED"]);
  // A create that succeeds ends the failures in a row.
  server.createErrors.push(worldFault());
  const last = await fleet.tickets(2, { profile: "any" });
  await fleet.pass(11_000);
  expect(await fleet.states(last)).toEqual(["ASSIGNED", "ASSIGNED"]);
});

it.each([
  ["cannot be reached is not used before it reports again", unreachable(), 0],
  ["is full is used again after its cooldown", new DmEnvRpcError("RESOURCE_EXHAUSTED", "full"), 1],
])("a server that %s", async (_, error, created) => {
  await using fleet = await Fleet.open({ settings: { cooldownMs: 1_000 } });
  const server = await fleet.serve("a");
  server.createErrors.push(error);
  await fleet.tickets(2);
  await fleet.settle();
  fleet.time.advance(2_000);
  await fleet.settle();
  expect(server.created).toBe(created);
  await fleet.report(server);
  await fleet.settle();
  expect(server.created).toBe(1);
});

it.each([
  ["cannot be reached", unreachable()],
  ["refuses the matchmaker", new DmEnvRpcError("PERMISSION_DENIED", "the secret of 10.0.0.5")],
])(
  "only the event names the address and the error of a server that %s, and tickets learn that they wait",
  async (_, error) => {
    await using fleet = await Fleet.open();
    const server = await fleet.serve("a");
    server.createErrors.push(error);
    const [first = ""] = await fleet.tickets(2);
    await fleet.settle(1);
    expect((await fleet.ticket(first)).error).toMatchObject({
      code: Code.Unavailable,
      message: "a server could not create the match's world; the ticket waits for another one",
    });
    expect(eventsOf(fleet, "world-failed")).toMatchObject([{ serverId: "a", error }]);
  },
);

it("a ticket has at most 500 characters of the error of a world", async () => {
  await using fleet = await Fleet.open();
  const server = await fleet.serve("a");
  server.createErrors.push(new DmEnvRpcError("INTERNAL", "x".repeat(100_000)));
  const [first = ""] = await fleet.tickets(2);
  await fleet.settle(1);
  const { error } = await fleet.ticket(first);
  expect(error?.message).toMatch(/^the match's world could not be created: x{500}…; the ticket/);
});

it("tickets that wait again after a failed create need not be watched or read for awayMs", async () => {
  await using fleet = await Fleet.open({ settings: { ticketLeaseMs: 2_000, awayMs: 20_000 } });
  const server = await fleet.serve("a");
  const release = fleet.servers.hold("create");
  await fleet.tickets(2);
  await fleet.matchmaker.tick();
  server.isUp = false;
  fleet.time.advance(5_000);
  release();
  await fleet.settle();
  for (let second = 0; second < 15; second++) {
    fleet.time.advance(1_000);
    await fleet.settle(1);
  }
  expect(fleet.matchmaker.counts().tickets).toMatchObject({ waiting: 2, failed: 0 });
});

it("matches that were placed on a server before it drains still get their worlds", async () => {
  await using fleet = await Fleet.open({ settings: { maxCreatesPerServer: 1 } });
  const release = fleet.servers.hold("create");
  const server = await fleet.serve("a");
  const ids = await fleet.tickets(4);
  await fleet.matchmaker.tick();
  expect(callsOf(fleet, "create")).toHaveLength(1);
  await fleet.registry.drainServer({ serverId: "a" });
  release();
  await fleet.pass(2_000);
  expect(server.created).toBe(2);
  expect(await fleet.states(ids)).toEqual(ids.map(() => "ASSIGNED"));
});

it("a server has at most maxCreatesPerServer creates in progress", async () => {
  await using fleet = await Fleet.open({ settings: { maxCreatesPerServer: 2 } });
  const release = fleet.servers.hold("create");
  await fleet.serve("a");
  await fleet.tickets(10);
  await fleet.matchmaker.tick();
  await fleet.matchmaker.tick();
  expect(callsOf(fleet, "create")).toHaveLength(2);
  release();
  await fleet.settle(5);
  expect(callsOf(fleet, "create")).toHaveLength(5);
});

/** Opens a fleet in which three worlds are to be created on server "a", one at a time; the first create is held. */
async function queued(options: Parameters<typeof Fleet.open>[0] = {}) {
  const settings = { maxCreatesPerServer: 1 };
  const fleet = await Fleet.open({ profiles: [profile({ count: 1 })], settings, ...options });
  const server = await fleet.serve("a");
  await fleet.tickets(3);
  const release = fleet.servers.hold("create");
  await fleet.matchmaker.tick();
  return { fleet, server, release, [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose]() };
}

describe("the next create on a server", () => {
  it("starts as soon as the previous create has succeeded, without waiting for a tick", async () => {
    await using scene = await queued();
    const { fleet, server, release } = scene;
    expect(callsOf(fleet, "create")).toHaveLength(1);
    release();
    await fleet.matchmaker.settled();
    expect(server.created).toBe(3);
  });

  it("waits for a tick if the previous create has failed", async () => {
    await using scene = await queued();
    const { fleet, server, release } = scene;
    server.createErrors.push(new Error("the network is down"));
    release();
    await fleet.matchmaker.settled();
    expect(callsOf(fleet, "create")).toHaveLength(1);
    await fleet.pass(5_000);
    expect(server.created).toBe(3);
  });

  it("does not start once the matchmaker closes", async () => {
    await using scene = await queued();
    const { fleet, server, release } = scene;
    const closed = fleet.matchmaker.close();
    release();
    await closed;
    expect(server.created).toBe(1);
  });
});
