// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { expect, it } from "vitest";
import { callsOf, eventsOf, Fleet, profile } from "../../../testing/fleet.ts";
import { startMs } from "../../../testing/start-ms.ts";
import type { AllocatableServer, ServerAllocator } from "../../fleet/allocator.ts";
import { memoryStore } from "../../store/memory-store.ts";

/** An orchestrator in this process. */
class Orchestrator implements ServerAllocator {
  /** Ids of the servers that were to be allocated, one for each call. */
  readonly calls: string[] = [];
  /** Servers that cannot be allocated now. */
  readonly busy = new Set<string>();
  readonly unmanaged = new Set<string>();
  /** Called before each answer. */
  pace: () => Promise<void> = async () => {};

  async allocate({ id }: AllocatableServer): Promise<boolean> {
    this.calls.push(id);
    await this.pace();
    if (this.busy.has(id)) {
      throw new Error(`GameServer "${id}" is not Ready`);
    }
    return !this.unmanaged.has(id);
  }
}

/** Opens a fleet whose servers are allocated by an orchestrator. */
async function open(options: Parameters<typeof Fleet.open>[0] = {}) {
  const orchestrator = new Orchestrator();
  const fleet = await Fleet.open({ allocator: orchestrator, ...options });
  return { fleet, orchestrator, [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose]() };
}

it("a server is allocated before its first world is created, and not again", async () => {
  await using scene = await open();
  const { fleet, orchestrator } = scene;
  await fleet.serve("a");
  let allocate = (): void => {};
  orchestrator.pace = () => new Promise((resolve) => (allocate = resolve));
  const first = await fleet.tickets(2);
  await fleet.matchmaker.tick();
  expect(orchestrator.calls).toEqual(["a"]);
  expect(callsOf(fleet, "create")).toEqual([]);
  expect(await fleet.states(first)).toEqual(["MATCHED", "MATCHED"]);
  allocate();
  await fleet.settle();
  expect(await fleet.states(first)).toEqual(["ASSIGNED", "ASSIGNED"]);
  const second = await fleet.tickets(2);
  await fleet.settle();
  expect(await fleet.states(second)).toEqual(["ASSIGNED", "ASSIGNED"]);
  expect(orchestrator.calls).toEqual(["a"]);
  expect(eventsOf(fleet, "server-allocated")).toEqual([
    { kind: "server-allocated", serverId: "a" },
  ]);
});

it("worlds that wait for the same server share one allocation", async () => {
  await using scene = await open();
  const { fleet, orchestrator } = scene;
  await fleet.serve("a");
  const ids = await fleet.tickets(6);
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(ids.map(() => "ASSIGNED"));
  expect(orchestrator.calls).toEqual(["a"]);
});

it("tickets whose server cannot be allocated get a world on another server", async () => {
  await using scene = await open({ settings: { cooldownMs: 60_000 } });
  const { fleet, orchestrator } = scene;
  orchestrator.busy.add("a");
  const [a, b] = [await fleet.serve("a"), await fleet.serve("b")];
  const ids = await fleet.tickets(2);
  await fleet.settle(1);
  expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
  // Only the event has the orchestrator's error.
  expect((await fleet.ticket(ids[0] ?? "")).error?.message).toBe(
    "a server for the match could not be allocated; the ticket waits for another one",
  );
  expect(eventsOf(fleet, "allocation-failed")).toMatchObject([
    { serverId: "a", error: { message: 'GameServer "a" is not Ready' } },
  ]);
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  expect([a.created, b.created]).toEqual([0, 1]);
  expect(orchestrator.calls).toEqual(["a", "b"]);
  expect(eventsOf(fleet, "allocation-failed")).toMatchObject([{ serverId: "a" }]);
});

it("a failed allocation of a server is repeated after a cooldown, once for all of the server's worlds", async () => {
  await using scene = await open({ settings: { cooldownMs: 2_000 } });
  const { fleet, orchestrator } = scene;
  orchestrator.busy.add("a");
  await fleet.serve("a");
  const ids = await fleet.tickets(4);
  await fleet.settle();
  expect(orchestrator.calls).toEqual(["a"]);
  await fleet.pass(1_000);
  expect(orchestrator.calls).toEqual(["a"]);
  await fleet.pass(2_000);
  expect(orchestrator.calls).toEqual(["a", "a"]);
  orchestrator.busy.clear();
  await fleet.pass(5_000);
  expect(await fleet.states(ids)).toEqual(ids.map(() => "ASSIGNED"));
});

it("a profile whose servers cannot be allocated does not affect other profiles", async () => {
  const of = (tier: string) => profile({ name: tier, serverLabels: { tier } });
  await using scene = await open({ profiles: [of("small"), of("large")] });
  const { fleet, orchestrator } = scene;
  orchestrator.busy.add("s");
  await fleet.serve("s", { labels: { tier: "small" } });
  await fleet.serve("l", { labels: { tier: "large" } });
  const small = await fleet.tickets(2, { profile: "small" });
  const large = await fleet.tickets(2, { profile: "large" });
  await fleet.settle();
  expect(await fleet.states(small)).toEqual(["WAITING", "WAITING"]);
  expect(await fleet.states(large)).toEqual(["ASSIGNED", "ASSIGNED"]);
});

it("a server that the orchestrator does not manage gets worlds", async () => {
  await using scene = await open();
  const { fleet, orchestrator } = scene;
  orchestrator.unmanaged.add("a");
  await fleet.serve("a");
  const ids = await fleet.tickets(4);
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(ids.map(() => "ASSIGNED"));
  expect(orchestrator.calls).toEqual(["a"]);
  expect(eventsOf(fleet, "server-allocated")).toEqual([]);
});

it("an allocation holds while the server registers again and while another matchmaker leads", async () => {
  const time = manualTime(startMs);
  const store = memoryStore({ time });
  const shared = { time, store: { ...store, close: async () => {} }, newId: () => randomUUID() };
  await using scene = await open(shared);
  const { fleet, orchestrator } = scene;
  const server = await fleet.serve("a");
  await fleet.tickets(2);
  await fleet.settle();
  await fleet.register(server);
  await fleet.tickets(2);
  await fleet.settle();
  expect(server.created).toBe(2);
  expect(orchestrator.calls).toEqual(["a"]);
  await fleet.matchmaker.close();
  time.advance(10_000);
  await using next = await open({ ...shared, servers: fleet.servers });
  await next.fleet.tickets(2);
  await next.fleet.settle();
  expect(server.created).toBe(3);
  expect(next.orchestrator.calls).toEqual([]);
});

it("no world is created if the match ends while its server is being allocated", async () => {
  await using scene = await open();
  const { fleet, orchestrator } = scene;
  const server = await fleet.serve("a");
  let allocate = (): void => {};
  orchestrator.pace = () => new Promise((resolve) => (allocate = resolve));
  const ids = await fleet.tickets(2);
  await fleet.matchmaker.tick();
  await fleet.registry.deregisterServer({ serverId: "a" });
  fleet.time.advance(1_000);
  await fleet.matchmaker.tick();
  allocate();
  await fleet.settle();
  expect(server.created).toBe(0);
  expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
});

it("among servers with equally many free seats, an allocated server gets the world", async () => {
  await using scene = await open();
  const { fleet, orchestrator } = scene;
  const b = await fleet.serve("b");
  await fleet.tickets(2);
  await fleet.settle();
  await fleet.pass(1_000);
  await fleet.serve("a");
  b.worlds.clear();
  await fleet.pass(2_000);
  expect(fleet.matchmaker.counts().worlds).toBe(1);
  expect(orchestrator.calls).toEqual(["b"]);
  expect(b.created).toBe(2);
});
