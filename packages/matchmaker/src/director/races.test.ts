// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { WorldPolicySchema } from "@dm-env-rpc/protocol/matchmaker";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { expect, it } from "vitest";
import { eventsOf, Fleet, profile } from "../../testing/fleet.ts";
import { recordsOf } from "../../testing/invariants.ts";
import { SimulatedServer } from "../../testing/simulated-servers.ts";
import { startMs } from "../../testing/start-ms.ts";
import { written } from "../../testing/wrapped-stores.ts";
import type { World } from "../model/model.ts";
import { memoryStore } from "../store/memory-store.ts";
import type { Change, CommitResult, Store } from "../store/store.ts";

/**
 * Opens a fleet that runs `rival` before each commit of the director. If `rival` returns a result, the commit is not
 * made and has that result.
 */
async function overtaken(options: Parameters<typeof Fleet.open>[0] = {}) {
  const time = manualTime(startMs);
  const inner = memoryStore({ time });
  const race: { rival(changes: readonly Change[]): Promise<CommitResult | undefined> } = {
    rival: async () => undefined,
  };
  const store: Store = {
    ...inner,
    async commit(changes, commit) {
      const answer = commit?.lease === undefined ? undefined : await race.rival(changes);
      return answer ?? (await inner.commit(changes, commit));
    },
  };
  const fleet = await Fleet.open({ time, store, ...options });
  const worlds = async (): Promise<World[]> => [...(await recordsOf(inner)).world.values()];
  /** Changes a world as another commit would. */
  const change = async (id: string, how: Partial<World>): Promise<void> => {
    const [entry] = await inner.read([{ kind: "world", id }]);
    const value = { ...(entry?.value as World), ...how };
    await inner.commit([{ kind: "world", id, version: entry?.version ?? 0, value }]);
  };
  return {
    fleet,
    inner,
    race,
    worlds,
    change,
    [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose](),
  };
}

/** Lets time pass without reports. */
async function silence(fleet: Fleet, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 1_000) {
    fleet.time.advance(1_000);
    await fleet.matchmaker.tick();
  }
}

it("a ticket that is cancelled between two batches of overdue tickets stays cancelled", async () => {
  await using scene = await overtaken({ settings: { maxWaitMs: 60_000 } });
  const { fleet, race } = scene;
  const ids = await fleet.tickets(510);
  const last = ids.at(-1) ?? "";
  fleet.time.advance(61_000);
  race.rival = async () => {
    race.rival = async () => undefined;
    await fleet.frontend.cancelTicket({ ticketId: last });
    return undefined;
  };
  await fleet.matchmaker.tick();
  expect(await fleet.states([ids[0] ?? "", last])).toEqual(["FAILED", "CANCELLED"]);
});

it("an open seat is not filled if its world begins to drain before the commit", async () => {
  await using scene = await overtaken({ profiles: [profile({ backfill: true })] });
  const { fleet, race, worlds, change } = scene;
  const server = await fleet.serve("a");
  const [first = "", second = ""] = await fleet.tickets(2);
  await fleet.settle();
  await fleet.join(first);
  await fleet.join(second);
  await fleet.pass(1_000);
  for (const { tickets } of server.worlds.values()) {
    tickets.delete(first);
  }
  await fleet.pass(1_000);
  const [third = ""] = await fleet.tickets(1);
  race.rival = async (changes) => {
    if (changes.some(({ kind, id }) => kind === "ticket" && id === third)) {
      race.rival = async () => undefined;
      const [world] = await worlds();
      const drainUntilMs = fleet.time.now() + 60_000;
      await change(world?.id ?? "", { state: "draining", drainUntilMs });
    }
    return undefined;
  };
  await fleet.settle();
  expect(await fleet.states([third])).toEqual(["WAITING"]);
  expect(eventsOf(fleet, "assigned")).toHaveLength(1);
});

it("a silent server that another leader has just marked as lost is reported only by that leader", async () => {
  await using scene = await overtaken({ settings: { serverLeaseMs: 15_000 } });
  const { fleet, race } = scene;
  await fleet.serve("a");
  await fleet.settle();
  race.rival = async (changes) => {
    if (changes.some(({ kind }) => kind === "server")) {
      race.rival = async () => undefined;
      await scene.inner.commit(changes);
    }
    return undefined;
  };
  await silence(fleet, 16_000);
  const { server } = await recordsOf(fleet.store);
  expect(server.get("a")?.state).toBe("lost");
  expect(eventsOf(fleet, "server-lost")).toEqual([]);
});

it("a server that another leader has just deleted, and that has registered again, stays registered", async () => {
  await using scene = await overtaken();
  const { fleet, race } = scene;
  const server = await fleet.serve("a");
  await fleet.settle();
  race.rival = async (changes) => {
    if (changes.some(({ kind, value }) => kind === "server" && value === undefined)) {
      race.rival = async () => undefined;
      await scene.inner.commit(changes);
      await fleet.register(server);
    }
    return undefined;
  };
  await fleet.registry.deregisterServer({ serverId: "a" });
  await silence(fleet, 2_000);
  expect((await recordsOf(fleet.store)).server.get("a")?.state).toBe("serving");
  expect(eventsOf(fleet, "server-gone")).toEqual([]);
  const ids = await fleet.tickets(2);
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
});

it("a world that changes while its end is committed keeps the change, and still ends", async () => {
  await using scene = await overtaken({ profiles: [profile({ count: 1 })] });
  const { fleet, race, change } = scene;
  const server = await fleet.serve("a");
  const [id = ""] = await fleet.tickets(1);
  await fleet.settle();
  await fleet.join(id);
  await fleet.pass(1_000);
  const ended: number[] = [];
  race.rival = async (changes) => {
    for (const { id: worldId, state, resetSequences } of written(changes, "world")) {
      if (state === "destroying" && ended.push(resetSequences) === 1) {
        await change(worldId, { resetSequences: 7 });
      }
    }
    return undefined;
  };
  for (const { tickets } of server.worlds.values()) {
    tickets.clear();
  }
  await fleet.pass(2_000);
  expect(ended).toEqual([0, 7]);
  expect(server.worlds.size).toBe(0);
});

it.each([
  ["drains", "draining", 0],
  ["changes but stays open", "open", 1],
] as const)(
  "if a world %s before its reset is committed, the world is reset only if it is still open",
  async (_, state, resets) => {
    const worldPolicy = create(WorldPolicySchema, { resetAfterSequences: 1 });
    await using scene = await overtaken({ profiles: [profile({ count: 1, worldPolicy })] });
    const { fleet, race, change } = scene;
    const server = await fleet.serve("a");
    const [id = ""] = await fleet.tickets(1);
    await fleet.settle();
    await fleet.join(id);
    await fleet.pass(1_000);
    race.rival = async (changes) => {
      for (const { id: worldId, resetSequences } of written(changes, "world")) {
        if (resetSequences === 2) {
          race.rival = async () => undefined;
          const drainUntilMs = fleet.time.now() + 60_000;
          await change(worldId, { state, drainUntilMs });
        }
      }
      return undefined;
    };
    const [world] = server.worlds.values();
    if (world !== undefined) {
      world.sequences = 2;
    }
    await fleet.pass(1_000);
    expect(world?.resets).toBe(resets);
    expect(fleet.events.filter(({ kind }) => kind === "step-failed")).toEqual([]);
  },
);

it("matches whose commit fails without a visible conflict are made in a later tick", async () => {
  await using scene = await overtaken();
  const { fleet, race } = scene;
  await fleet.serve("a");
  const ids = await fleet.tickets(2);
  let refused = 0;
  race.rival = async (changes) => {
    if (!changes.some(({ kind }) => kind === "match")) {
      return undefined;
    }
    refused += 1;
    return refused > 3 ? undefined : { ok: false, conflicts: [] };
  };
  await fleet.matchmaker.tick();
  expect(refused).toBe(1);
  await fleet.settle(5);
  expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
});

it("a world that is being created does not count as orphaned", async () => {
  await using fleet = await Fleet.open({ settings: { orphanMs: 10_000 } });
  const server = await fleet.serve("a");
  let finish = (): void => {};
  fleet.servers.pace = async (what) => {
    if (what === "created") {
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
    }
  };
  const ids = await fleet.tickets(2);
  await fleet.matchmaker.tick();
  await expect.poll(() => server.worlds.size).toBe(1);
  for (let seconds = 0; seconds < 15; seconds++) {
    fleet.time.advance(1_000);
    await fleet.report(server);
    await fleet.matchmaker.tick();
  }
  expect(server.destroyed.size).toBe(0);
  finish();
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
});

it("an open seat on a suspect server is not filled", async () => {
  await using fleet = await Fleet.open({ profiles: [profile({ backfill: true })] });
  const server = fleet.servers.add(new SimulatedServer("a"));
  // The server's seats become free immediately, because the server does not report tickets.
  await fleet.registry.registerServer({
    serverId: "a",
    address: server.address,
    capacity: { maxWorlds: 1, maxAgents: 2 },
    worldTypes: ["gridworld"],
  });
  const [first = "", , third = ""] = await fleet.tickets(3);
  await fleet.settle();
  server.isUp = false;
  await fleet.frontend.cancelTicket({ ticketId: first });
  await fleet.settle();
  expect(await fleet.states([third])).toEqual(["WAITING"]);
});

it("a server that has just answered is not checked again for a second", async () => {
  await using fleet = await Fleet.open({
    profiles: [profile({ count: 1 })],
    settings: { serverLeaseMs: 60_000 },
  });
  await fleet.serve("a");
  let asked = 0;
  const check = fleet.servers.check.bind(fleet.servers);
  fleet.servers.check = async (target) => {
    asked += 1;
    await check(target);
  };
  const cancelOne = async (): Promise<void> => {
    const [id = ""] = await fleet.tickets(1);
    await fleet.settle();
    await fleet.frontend.cancelTicket({ ticketId: id });
    await fleet.settle();
  };
  await cancelOne();
  expect(asked).toBe(1);
  await cancelOne();
  expect(asked).toBe(1);
  // Each new ticket takes a millisecond.
  fleet.time.advance(997);
  await cancelOne();
  expect(asked).toBe(1);
  await cancelOne();
  expect(asked).toBe(2);
});

it.each(["lost", "gone"] as const)(
  "a server that registers again before it is marked as %s keeps its worlds and its agents",
  async (state) => {
    const settings = { serverLeaseMs: 15_000, lostServerMs: 30_000 };
    await using scene = await overtaken({ settings });
    const { fleet, race } = scene;
    const server = await fleet.serve("a");
    const ids = await fleet.tickets(2);
    await fleet.settle();
    await fleet.joinAll(ids);
    await fleet.pass(1_000);
    let marked = 0;
    race.rival = async (changes) => {
      const marks = changes.some(
        (change) => change.kind === "server" && change.value?.state === state,
      );
      if (marks) {
        marked += 1;
        await fleet.register(server);
      }
      return undefined;
    };
    for (let passed = 0; passed < 60_000 && marked === 0; passed += 1_000) {
      fleet.time.advance(1_000);
      await fleet.matchmaker.tick();
    }
    expect(marked).toBe(1);
    await fleet.pass(5_000);
    const { server: servers } = await recordsOf(fleet.store);
    expect(servers.get("a")?.state).toBe("serving");
    expect(await fleet.states(ids)).toEqual(["JOINED", "JOINED"]);
    const kinds = fleet.events.map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === "server-lost")).toHaveLength(state === "gone" ? 1 : 0);
    expect(kinds).not.toContain("server-gone");
    expect(server.created).toBe(1);
  },
);
