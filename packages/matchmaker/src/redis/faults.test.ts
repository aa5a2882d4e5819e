// SPDX-License-Identifier: Apache-2.0

import { randomUUID } from "node:crypto";
import { createClient, createRouterTransport } from "@connectrpc/connect";
import { FrontendService, RegistryService, TicketState } from "@dm-env-rpc/protocol/matchmaker";
import { hasRedis, RedisServer, sayWhetherRedis } from "@dm-env-rpc/tests-processes";
import { pause, systemTime } from "@dm-env-rpc/transport/internal";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { profile, reports as reportsOf } from "../../testing/house.ts";
import { SimulatedServer, SimulatedServers } from "../../testing/simulated-servers.ts";
import type { MatchmakerEvent } from "../events.ts";
import { createMatchmaker, type Matchmaker } from "../matchmaker.ts";
import { isStoreError } from "../store/store.ts";
import { redisStore } from "./redis-store.ts";

sayWhetherRedis();

/** A matchmaker with a loop of its own, on real time. */
class Running implements AsyncDisposable {
  readonly events: MatchmakerEvent[] = [];
  #matchmaker: Matchmaker | undefined;

  get matchmaker(): Matchmaker {
    if (this.#matchmaker === undefined) throw new Error("not open");
    return this.#matchmaker;
  }

  static async open(
    url: string,
    servers: SimulatedServers,
    prefix: string,
    { serverLeaseMs = 60_000 } = {},
  ): Promise<Running> {
    const running = new Running();
    running.#matchmaker = await insist(async () =>
      createMatchmaker({
        store: await redisStore({ url, prefix, commandMs: 300, pollMs: 100 }),
        servers,
        profiles: [profile()],
        settings: { leaderLeaseMs: 1_000, tickMs: 50, minTickMs: 5, serverLeaseMs },
        onEvent: (event) => running.events.push(event),
      }),
    );
    return running;
  }

  get frontend() {
    return createClient(
      FrontendService,
      createRouterTransport((router) => this.matchmaker.routes(router)),
    );
  }

  get registry() {
    return createClient(
      RegistryService,
      createRouterTransport((router) => this.matchmaker.routes(router)),
    );
  }

  async register(server: SimulatedServer): Promise<bigint> {
    const { epoch } = await insist(() =>
      this.registry.registerServer({
        serverId: server.id,
        address: server.address,
        capacity: { maxWorlds: 100, maxAgents: 1_000 },
        worldTypes: ["gridworld"],
        joinTokens: true,
      }),
    );
    return epoch;
  }

  /** Resolves when a ticket is assigned. */
  async assigned(ticketId: string): Promise<void> {
    await insist(async () => {
      for await (const { ticket } of this.frontend.watchTicket({ ticketId })) {
        if (ticket?.state === TicketState.ASSIGNED) return;
      }
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.matchmaker.close();
  }
}

describe.skipIf(!hasRedis)("with a Redis that fails", () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterAll(() => redis?.[Symbol.asyncDispose]());

  it("a store that nobody answers for says so, in its time", async () => {
    const opening = redisStore({ url: "redis://user:secret@127.0.0.1:1", connectMs: 300 });
    await expect(opening).rejects.toSatisfy(
      (error) =>
        isStoreError(error, "unavailable") &&
        /Redis at redis:\/\/127\.0\.0\.1:1 does not answer/.test(error.message),
    );
  });

  it("its time is Redis's own, whatever the clock of a matchmaker says", async () => {
    const offMs = 5 * 3_600_000;
    const wrong = { ...systemTime, now: () => systemTime.now() + offMs };
    await using store = await insist(() => redisStore({ url: redis.url, time: wrong }));
    expect(Math.abs(store.now() - Date.now())).toBeLessThan(offMs / 2);
  });

  it.each([
    ["restarted", () => redis.kill(), () => redis.start()],
    ["unreachable", async () => redis.freeze(), async () => redis.thaw()],
  ] as const)(
    "a Redis that is %s crashes nobody and loses nothing, and all goes on",
    async (_, fail, heal) => {
      const servers = new SimulatedServers();
      const prefix = randomUUID();
      await using one = await Running.open(redis.url, servers, prefix);
      await using two = await Running.open(redis.url, servers, prefix);
      await one.register(servers.add(new SimulatedServer("a", { maxWorlds: 100 })));
      const before = await create(one, 3);
      await Promise.all(before.slice(0, 2).map((id) => two.assigned(id)));

      await fail();
      const mine = { ticketId: randomUUID() };
      const failure = await one.frontend.createTicket(mine).catch((error: unknown) => error);
      expect(String(failure)).toMatch(/\[unavailable\] the matchmaker cannot reach its store/);
      await heard(one, "store-failed");
      await heal();

      await insist(() => two.frontend.createTicket(mine));
      await Promise.all([...before, mine.ticketId].map((id) => one.assigned(id)));
      await expect.poll(() => leaders(one, two)).toHaveLength(1);
      const failed = [...one.events, ...two.events].filter(({ kind }) => kind === "step-failed");
      expect(failed).toEqual([]);
    },
  );

  it("a Redis that is unreachable for ten seconds, longer than any lease, costs no server and no ticket", async () => {
    const servers = new SimulatedServers();
    const prefix = randomUUID();
    await using one = await Running.open(redis.url, servers, prefix, { serverLeaseMs: 3_000 });
    await using two = await Running.open(redis.url, servers, prefix, { serverLeaseMs: 3_000 });
    const server = servers.add(new SimulatedServer("c", { maxWorlds: 100 }));
    const epoch = await one.register(server);
    const reporting = new AbortController();
    const refusals: string[] = [];
    // As a registration does: again and again, to whoever answers, and a refusal is no end.
    const reports = (async () => {
      while (!reporting.signal.aborted) {
        for (const { registry } of [one, two]) {
          await registry
            .renewServer({ serverId: server.id, epoch, worlds: reportsOf(server) })
            .catch((error: unknown) => refusals.push(String(error)));
        }
        await pause(systemTime, 200, reporting.signal);
      }
    })();
    const before = await create(one, 3);
    await Promise.all(before.slice(0, 2).map((id) => two.assigned(id)));

    redis.freeze();
    await pause(systemTime, 10_000);
    redis.thaw();

    const later = randomUUID();
    await insist(() => two.frontend.createTicket({ ticketId: later }));
    await Promise.all([...before, later].map((id) => one.assigned(id)));
    reporting.abort();
    await reports;
    expect(refusals.filter((text) => !/\[unavailable\]/.test(text))).toEqual([]);
    const events = [...one.events, ...two.events];
    expect(events.some(({ kind }) => kind === "store-failed")).toBe(true);
    const bad = ["server-lost", "server-gone", "step-failed", "world-destroyed", "ticket-ended"];
    expect(events.filter(({ kind }) => bad.includes(kind))).toEqual([]);
    expect(server.worlds.size).toBe(2);
    await expect.poll(() => leaders(one, two)).toHaveLength(1);
  });

  it("another matchmaker takes over when the one that leads is closed", async () => {
    const servers = new SimulatedServers();
    const prefix = randomUUID();
    const one = await Running.open(redis.url, servers, prefix);
    await using two = await Running.open(redis.url, servers, prefix);
    await one.register(servers.add(new SimulatedServer("b", { maxWorlds: 100 })));
    await one.matchmaker.close();
    const ids = await create(two, 2);
    await Promise.all(ids.map((id) => two.assigned(id)));
    await expect.poll(() => leaders(one, two)).toEqual([two]);
  });
});

async function create({ frontend }: Running, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let made = 0; made < count; made++) {
    const ticketId = randomUUID();
    await insist(() => frontend.createTicket({ ticketId }));
    ids.push(ticketId);
  }
  return ids;
}

/** Those that lead: for a moment none may, or one that stood still may not know yet that it is another. */
function leaders(...running: readonly Running[]): Running[] {
  return running.filter(({ matchmaker }) => matchmaker.isLeading);
}

/** Asks until there is an answer, as clients do; what they ask for is the same however often they ask. */
async function insist<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!isStoreError(error, "unavailable") && !/\[unavailable\]/.test(String(error)))
        throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

async function heard({ events }: Running, kind: MatchmakerEvent["kind"]): Promise<void> {
  while (!events.some((event) => event.kind === kind)) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
