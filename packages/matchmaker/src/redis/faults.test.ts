// SPDX-License-Identifier: Apache-2.0

import { randomUUID } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, createRouterTransport } from "@connectrpc/connect";
import {
  AdminService,
  FrontendService,
  RegistryService,
  TicketState,
} from "@dm-env-rpc/protocol/matchmaker";
import {
  freePort,
  hasRedis,
  Program,
  RedisServer,
  sayWhetherRedis,
} from "@dm-env-rpc/tests-processes";
import { pause, systemTime } from "@dm-env-rpc/transport/internal";
import { createClient as createRedisClient } from "redis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { makeCertificates, opensslMissing } from "../../../server/testing/certificates.ts";
import { cuttableLine } from "../../testing/cuttable-line.ts";
import { profile, reports as reportsOf } from "../../testing/fleet.ts";
import { SimulatedServer, SimulatedServers } from "../../testing/simulated-servers.ts";
import { Leadership } from "../director/leadership.ts";
import { createMatchmaker, type Matchmaker } from "../matchmaker.ts";
import type { MatchmakerEvent } from "../model/events.ts";
import { put, Replica } from "../replica/replica.ts";
import { type Change, isStoreError } from "../store/store.ts";
import { redisStore } from "./redis-store.ts";

sayWhetherRedis();

/** A matchmaker whose loop runs on real time. */
class Running implements AsyncDisposable {
  readonly events: MatchmakerEvent[] = [];
  readonly #epochs = new Map<string, bigint>();
  #matchmaker: Matchmaker | undefined;

  get matchmaker(): Matchmaker {
    if (this.#matchmaker === undefined) {
      throw new Error("not open");
    }
    return this.#matchmaker;
  }

  static async open(
    url: string,
    servers: SimulatedServers,
    prefix: string,
    { serverLeaseMs = 60_000, leaderLeaseMs = 1_000 } = {},
  ): Promise<Running> {
    const running = new Running();
    running.#matchmaker = await insist(async () =>
      createMatchmaker({
        store: await redisStore({ url, prefix, commandMs: 300, pollMs: 100 }),
        servers,
        profiles: [profile()],
        settings: { leaderLeaseMs, tickMs: 50, minTickMs: 5, serverLeaseMs },
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

  get admin() {
    return createClient(
      AdminService,
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
    this.#epochs.set(server.id, epoch);
    return epoch;
  }

  /** Returns the terms that a server receives in the response to each report. */
  async terms(server: SimulatedServer): Promise<{ readonly jwks: string }> {
    const epoch = this.#epochs.get(server.id) ?? (await this.register(server));
    return await insist(() =>
      this.registry.renewServer({ serverId: server.id, epoch, worlds: reportsOf(server) }),
    );
  }

  /** Waits until a ticket is assigned. */
  async assigned(ticketId: string): Promise<void> {
    await insist(async () => {
      for await (const { ticket } of this.frontend.watchTicket({ ticketId })) {
        if (ticket?.state === TicketState.ASSIGNED) {
          return;
        }
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

  it("a store that gets no answer fails within its time limit", async () => {
    const opening = redisStore({ url: "redis://user:secret@127.0.0.1:1", connectMs: 300 });
    await expect(opening).rejects.toSatisfy(
      (error) =>
        isStoreError(error, "unavailable") &&
        /Redis at redis:\/\/127\.0\.0\.1:1 does not answer/.test(error.message),
    );
  });

  it("a store reports the error with which Redis refuses the matchmaker", async () => {
    const { host } = new URL(redis.url);
    const opening = redisStore({ url: `redis://user:secret@${host}`, connectMs: 60_000 });
    await expect(opening).rejects.toSatisfy(
      (error) =>
        isStoreError(error, "unavailable") &&
        error.message.startsWith(`Redis at redis://${host} answered with an error: WRONGPASS `),
    );
  });

  it("a store has the time of Redis, even if the clock of the matchmaker is wrong", async () => {
    const offMs = 5 * 3_600_000;
    const wrong = { ...systemTime, now: () => systemTime.now() + offMs };
    await using store = await insist(() => redisStore({ url: redis.url, time: wrong }));
    expect(Math.abs(store.now() - Date.now())).toBeLessThan(offMs / 2);
  });

  it("a store's time does not go back when an answer is processed late", async () => {
    let passedMs = 0;
    const time = { ...systemTime, now: () => systemTime.now() + passedMs };
    await using store = await insist(() =>
      redisStore({ url: redis.url, prefix: randomUUID(), time }),
    );
    const beforeMs = store.now();
    const answer = store.changes(undefined, 10);
    // As if a minute passed between Redis's answer and its processing.
    passedMs = 60_000;
    await answer;
    expect(store.now() - beforeMs).toBeGreaterThanOrEqual(30_000);
  });

  it("a command leaves no timer of the Redis client behind", async () => {
    await using store = await insist(() => redisStore({ url: redis.url, prefix: randomUUID() }));
    const timeouts = vi.spyOn(AbortSignal, "timeout");
    onTestFinished(() => timeouts.mockRestore());
    await store.read([{ kind: "ticket", id: "none" }]);
    expect(timeouts).not.toHaveBeenCalled();
  });

  it("a store reads a record while its commits wait for Redis", async () => {
    await using store = await insist(() =>
      redisStore({ url: redis.url, prefix: randomUUID(), commandMs: 60_000 }),
    );
    await store.commit([writeSecret("a", 0)]);
    let isCommitted = false;
    await withClient(redis, ["CLIENT", "PAUSE", "60000", "WRITE"]);
    const commit = store.commit([writeSecret("b", 0)]).then(() => {
      isCommitted = true;
    });
    const [entry] = await store.read([{ kind: "secret", id: "a" }]);
    expect(entry?.value).toEqual({ id: "a", value: "a" });
    expect(isCommitted).toBe(false);
    await withClient(redis, ["CLIENT", "UNPAUSE"]);
    await commit;
  });

  it("a store does not read from an earlier Redis to which one of its connections still leads", async () => {
    await using other = await RedisServer.start();
    await using line = await cuttableLine(redis.url);
    await using store = await insist(() =>
      redisStore({ url: `redis://${line.address}`, prefix: randomUUID(), commandMs: 60_000 }),
    );
    await store.commit([writeSecret("a", 0)]);
    await store.read([{ kind: "secret", id: "a" }]);
    const readers = await clientsOf(redis, /cmd=hmget/);
    expect(readers).toHaveLength(1);
    line.target = other.url;
    for (const id of await clientsOf(redis, /cmd=eval/)) {
      await withClient(redis, ["CLIENT", "KILL", "ID", id]);
    }
    await insist(() => store.commit([writeSecret("b", 0)]));
    const entries = await store.read([
      { kind: "secret", id: "a" },
      { kind: "secret", id: "b" },
    ]);
    expect(entries.map(({ value }) => value)).toEqual([undefined, { id: "b", value: "b" }]);
    expect(await clientsOf(redis, /cmd=hmget/)).toEqual(readers);
  });

  it("a store leaves connections and handshakes that get no answer, and continues when a new connection works", async () => {
    await using line = await cuttableLine(redis.url);
    const prefix = randomUUID();
    await using other = await insist(() => redisStore({ url: redis.url, prefix }));
    const losses: string[] = [];
    await using store = await insist(() =>
      redisStore({
        url: `redis://${line.address}`,
        prefix,
        commandMs: 300,
        pollMs: 3_600_000,
        onError: ({ message }) => losses.push(message),
      }),
    );
    await insist(() => store.commit([writeSecret("a", 0)]));
    const calls = () => [
      store.commit([writeSecret("b", 0)]),
      store.read([{ kind: "secret", id: "a" }]),
    ];
    // If this machine stands still, the limit of the socket may end a connection before that of a command does.
    while (!losses.includes("no answer within 300 ms")) {
      line.silence();
      const { accepted } = line;
      // Like a matchmaker, calls the store again and again, until handshakes have failed to be answered, too.
      while (line.accepted < accepted + 5) {
        await Promise.all(calls().map((call) => expect(call).rejects.toThrow(/does not answer/)));
        await pause(systemTime, 20);
      }
      line.restore();
      await insist(() => store.commit([writeSecret("b", 0)]));
      const [entry] = await insist(() => store.read([{ kind: "secret", id: "a" }]));
      expect(entry?.value).toEqual({ id: "a", value: "a" });
    }
    // The connection for published messages, which sends no commands, is replaced, too.
    let heard = 0;
    store.onChange(() => heard++);
    await expect
      .poll(async () => {
        await other.commit([writeSecret(randomUUID(), 0)]);
        return heard;
      })
      .toBeGreaterThan(0);
  });

  it("a store that sends no commands pings each of its connections", async () => {
    await using _store = await insist(() =>
      redisStore({ url: redis.url, prefix: randomUUID(), commandMs: 500, pollMs: 3_600_000 }),
    );
    await expect.poll(() => clientsOf(redis, /cmd=ping/)).toHaveLength(3);
  });

  it.each([
    ["restarted", () => redis.kill(), () => redis.start()],
    ["unreachable", async () => redis.freeze(), async () => redis.thaw()],
  ] as const)(
    "a Redis that is %s crashes no process and loses no record, and matching continues",
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

  it("no server and no ticket is lost while Redis is unreachable for ten seconds, longer than the leases of servers and of the leader", async () => {
    const servers = new SimulatedServers();
    const prefix = randomUUID();
    await using one = await Running.open(redis.url, servers, prefix, { serverLeaseMs: 3_000 });
    await using two = await Running.open(redis.url, servers, prefix, { serverLeaseMs: 3_000 });
    const server = servers.add(new SimulatedServer("c", { maxWorlds: 100 }));
    const epoch = await one.register(server);
    const reporting = new AbortController();
    const refusals: string[] = [];
    // Sends reports as a registration does: to any matchmaker that answers, even after a refusal.
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

  it("a matchmaker does not lead and is not ready while Redis does not answer, and leads again afterwards", async () => {
    await using one = await Running.open(redis.url, new SimulatedServers(), randomUUID());
    await expect.poll(() => one.matchmaker.isLeading).toBe(true);
    expect(one.matchmaker.isReady).toBe(true);
    redis.freeze();
    await expect.poll(() => one.matchmaker.isLeading).toBe(false);
    await expect.poll(() => one.matchmaker.isReady).toBe(false);
    await heard(one, "following");
    redis.thaw();
    await expect.poll(() => one.matchmaker.isReady).toBe(true);
    await expect.poll(() => one.matchmaker.isLeading).toBe(true);
    await heard(one, "store-recovered");
  });

  it("a matchmaker leads as soon as Redis answers, even if the reply to its acquire was lost", async () => {
    await using store = await insist(() => redisStore({ url: redis.url, commandMs: 300 }));
    const leadership = new Leadership(store, systemTime, 600_000);
    redis.freeze();
    await expect(leadership.hold()).rejects.toThrow(/does not answer/);
    redis.thaw();
    // Redis ran the acquire when it was thawed.
    expect(await insist(() => leadership.hold())).toBe(true);
    await insist(() => leadership.release());
  });

  it.each([
    ["flushed", async () => flush(redis)],
    [
      "restarted without its data",
      async () => {
        await flush(redis);
        await redis.kill();
        await redis.start();
      },
    ],
  ] as const)(
    "a Redis that is %s is reported once per matchmaker, and profiles and keys are restored",
    async (_, lose) => {
      const servers = new SimulatedServers();
      const prefix = randomUUID();
      await using one = await Running.open(redis.url, servers, prefix);
      await using two = await Running.open(redis.url, servers, prefix);
      const server = servers.add(new SimulatedServer("a", { maxWorlds: 100 }));
      await one.register(server);
      const before = await create(one, 2);
      await Promise.all(before.map((id) => one.assigned(id)));
      const [earlier] = jwksOf(await one.terms(server));

      await lose();
      await Promise.all([heard(one, "store-lost"), heard(two, "store-lost")]);
      // A third matchmaker starts on the remaining state, and may store its own key first.
      await using three = await Running.open(redis.url, servers, prefix);
      await expect
        .poll(async () => names(await insist(() => two.admin.listProfiles({}))))
        .toEqual(["any"]);
      await expect(
        insist(() => two.registry.renewServer({ serverId: "a", epoch: 1n, worlds: [] })),
      ).rejects.toThrow(/\[not_found\]/);
      await two.register(server);
      const ids = await create(three, 2);
      await Promise.all(ids.map((id) => one.assigned(id)));

      // All sign with one key, and the key of earlier tokens is still published.
      const keys = await Promise.all(
        [one, two].map(async (each) => jwksOf(await each.terms(server))),
      );
      expect(keys[0]?.[0]).toBe(keys[1]?.[0]);
      for (const kids of keys) {
        expect(kids).toContain(earlier);
      }
      await expect.poll(async () => jwksOf(await three.terms(server))).toContain(earlier);
      await expect.poll(() => leaders(one, two, three)).toHaveLength(1);
      const events = [...one.events, ...two.events];
      expect(events.filter(({ kind }) => kind === "store-lost")).toHaveLength(2);
      expect(events.filter(({ kind }) => kind === "step-failed")).toEqual([]);
    },
  );

  it("a lease that was acquired before a flush can neither be renewed nor used in a commit", async () => {
    const prefix = `{${randomUUID()}}:`;
    await using one = await insist(() => redisStore({ url: redis.url, prefix, commandMs: 60_000 }));
    await using two = await insist(() => redisStore({ url: redis.url, prefix, commandMs: 60_000 }));
    const before = await one.acquire("lead", "one", 60_000);
    await flush(redis);
    const after = await two.acquire("lead", "two", 60_000);
    if (before === undefined || after === undefined) {
      throw new Error("two leases were expected");
    }
    expect(await one.renew(before, 60_000)).toBe(false);
    expect(await two.renew(after, 60_000)).toBe(true);
    await expect(one.commit([writeSecret("a", 0)], { lease: before })).rejects.toSatisfy((error) =>
      isStoreError(error),
    );
  });

  it("a Redis that is restored from an older state makes readers start over, and refuses commits that were planned before the restore", async () => {
    const prefix = `{${randomUUID()}}:`;
    await using one = await insist(() => redisStore({ url: redis.url, prefix, commandMs: 60_000 }));
    await using two = await insist(() => redisStore({ url: redis.url, prefix, commandMs: 60_000 }));
    await one.commit([writeSecret("kept", 0)]);
    const rollBack = await redis.snapshot();
    const lostCommit = await one.commit([writeSecret("lost", 0)]);
    const { position } = await one.changes(undefined, 100);
    const { life } = position;
    await redis.kill();
    await rollBack();
    await redis.start();
    // If versions did not start higher in each life, this commit would get the version of the lost commit.
    const commit = await insist(() => two.commit([writeSecret("lost", 0)]));
    if (!commit.ok || !lostCommit.ok) {
      throw new Error("two commits were expected");
    }
    expect(commit.version).toBeGreaterThan(lostCommit.version);
    const late = insist(() => one.commit([writeSecret("lost", lostCommit.version)], { life }));
    await expect(late).rejects.toSatisfy((error) => isStoreError(error, "lost"));
    const page = await one.changes(position, 100);
    expect(page).toMatchObject({ reset: true, lost: true });
    expect(page.entries.map(({ id }) => id).sort()).toEqual(["kept", "lost"]);
    expect(await one.changes(page.position, 100)).toMatchObject({ reset: false, entries: [] });
  });

  it("a replica forgets its own commits that Redis has lost, even if it has read nothing since it made them", async () => {
    await using store = await insist(() => redisStore({ url: redis.url, prefix: randomUUID() }));
    const losses: number[] = [];
    const replica = new Replica(store, (records) => losses.push(records));
    await replica.commit([writeSecret("kept", 0), writeSecret("changed", 0)]);
    await replica.sync();
    const rollBack = await redis.snapshot();
    const changed = replica.get("secret", "changed");
    await replica.commit([
      writeSecret("lost", 0),
      put("secret", "changed", changed, { id: "changed", value: "new" }),
    ]);
    await redis.kill();
    await rollBack();
    await redis.start();
    await insist(() => replica.sync());
    expect(new Map(replica.table("secret"))).toEqual(
      new Map([
        ["kept", replica.get("secret", "kept")],
        ["changed", changed],
      ]),
    );
    expect(losses).toEqual([2]);
  });

  it("a restart of Redis with all of its data makes no reader start over", async () => {
    const prefix = `{${randomUUID()}}:`;
    await using store = await insist(() =>
      redisStore({ url: redis.url, prefix, commandMs: 60_000 }),
    );
    await store.commit([writeSecret("a", 0)]);
    const { position } = await store.changes(undefined, 100);
    await redis.kill();
    await redis.start();
    await insist(() => store.commit([writeSecret("b", 0)]));
    const page = await store.changes(position, 100);
    expect(page).toMatchObject({ reset: false, lost: false });
    expect(page.entries.map(({ id }) => id)).toEqual(["b"]);
  });

  it("a full Redis refuses new tickets, and existing tickets continue", async () => {
    const servers = new SimulatedServers();
    await using one = await Running.open(redis.url, servers, randomUUID());
    const [first = "", second = ""] = await create(one, 2);
    await one.register(servers.add(new SimulatedServer("a", { maxWorlds: 100 })));
    await Promise.all([first, second].map((id) => one.assigned(id)));
    const [waiting = ""] = await create(one, 1);
    await configure(redis, { maxmemory: "1mb" });
    try {
      await expect(insist(() => one.frontend.createTicket({}))).rejects.toThrow(
        /\[resource_exhausted\] the matchmaker has no memory left for new tickets.*try again later/,
      );
      // Only the event names Redis and the remedy of its operator.
      const failed = one.events.filter((event) => event.kind === "call-failed");
      expect(failed.map(({ error }) => error.message)).toContainEqual(
        expect.stringMatching(/^Redis at \S+ has no memory left \(maxmemory\).*raise maxmemory$/),
      );
      const { ticket } = await insist(() => one.frontend.cancelTicket({ ticketId: waiting }));
      expect(ticket?.state).toBe(TicketState.CANCELLED);
      await insist(() => one.registry.deregisterServer({ serverId: "a" }));
      await expect
        .poll(async () => (await one.frontend.getTicket({ ticketId: first })).ticket?.state)
        .toBe(TicketState.WAITING);
      await expect.poll(() => one.matchmaker.isLeading).toBe(true);
      await one.matchmaker.close();
    } finally {
      await configure(redis, { maxmemory: "0" });
    }
  });

  it("another matchmaker takes over when the leader is closed", async () => {
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

describe.skipIf(!hasRedis)("an unsuitable Redis", () => {
  it("is refused if its policy evicts keys", async () => {
    await using redis = await RedisServer.start({
      flags: () => ["--maxmemory-policy", "allkeys-lru"],
    });
    await expect(insist(() => redisStore({ url: redis.url }))).rejects.toThrow(
      /expected maxmemory-policy noeviction, received allkeys-lru; set it with/,
    );
  });

  it("is refused when it is a node of a Cluster", async () => {
    await using redis = await RedisServer.start({ flags: () => ["--cluster-enabled", "yes"] });
    await expect(insist(() => redisStore({ url: redis.url }))).rejects.toThrow(
      /is a node of a Redis Cluster/,
    );
  });

  it("is refused when it is a replica", async () => {
    await using primary = await RedisServer.start();
    await using redis = await RedisServer.start({
      flags: () => ["--replicaof", "127.0.0.1", String(primary.port)],
    });
    await expect(insist(() => redisStore({ url: redis.url }))).rejects.toThrow(
      /is a read-only copy \(replica\)/,
    );
  });

  it("is refused when it is a Sentinel", async () => {
    const folder = await mkdtemp(join(tmpdir(), "dm-env-rpc-sentinel-"));
    const [port, file] = [await freePort(), join(folder, "sentinel.conf")];
    await writeFile(file, `port ${port}\nbind 127.0.0.1\n`);
    await using sentinel = new Program("redis-server", [file, "--sentinel"]);
    await sentinel.says(/(Sentinel ID)/);
    await expect(insist(() => redisStore({ url: `redis://127.0.0.1:${port}` }))).rejects.toThrow(
      /is a Sentinel: expected the Redis that it watches/,
    );
    await rm(folder, { recursive: true });
  });
});

const noOpenssl = opensslMissing();
if (noOpenssl !== undefined) {
  process.stderr.write(`skipped, Redis with TLS: ${noOpenssl}\n`);
}

describe.skipIf(!hasRedis || noOpenssl !== undefined)("a Redis with TLS", () => {
  it("accepts clients with a certificate of its authority, and presents its own certificate", async () => {
    const { authority, server, operator } = makeCertificates();
    const folder = await mkdtemp(join(tmpdir(), "dm-env-rpc-redis-tls-"));
    const at = (name: string): string => join(folder, name);
    await writeFile(at("ca.pem"), authority);
    await writeFile(at("cert.pem"), server.cert);
    await writeFile(at("key.pem"), server.key);
    const tls = ["--tls-cert-file", at("cert.pem"), "--tls-key-file", at("key.pem")];
    await using redis = await RedisServer.start({
      flags: (port) => [
        ...["--port", "0", "--tls-port", String(port)],
        ...tls,
        ...["--tls-ca-cert-file", at("ca.pem"), "--tls-auth-clients", "yes"],
      ],
    });
    const url = redis.url.replace("redis:", "rediss:");
    const short = { url, connectMs: 2_000 };
    await expect(redisStore(short)).rejects.toThrow(/certificate/);
    await expect(redisStore({ ...short, tls: { ca: authority } })).rejects.toSatisfy((error) =>
      isStoreError(error, "unavailable"),
    );
    const mine = { ca: authority, cert: operator.cert, key: operator.key };
    await using store = await insist(() => redisStore({ url, tls: mine }));
    expect(await store.commit([writeSecret("a", 0)])).toMatchObject({ ok: true });
    await rm(folder, { recursive: true });
  });
});

async function withClient(redis: RedisServer, args: readonly string[]): Promise<unknown> {
  const client = await createRedisClient({ url: redis.url }).connect();
  const reply = await client.sendCommand([...args]);
  client.destroy();
  return reply;
}

/** Returns the ids of the connections whose line in CLIENT LIST matches a pattern. */
async function clientsOf(redis: RedisServer, pattern: RegExp): Promise<string[]> {
  const lines = String(await withClient(redis, ["CLIENT", "LIST"])).split("\n");
  return lines.filter((line) => pattern.test(line)).map((line) => /id=(\d+)/.exec(line)?.[1] ?? "");
}

const flush = (redis: RedisServer): Promise<unknown> => withClient(redis, ["FLUSHALL"]);

const configure = (
  redis: RedisServer,
  settings: Readonly<Record<string, string>>,
): Promise<unknown> => withClient(redis, ["CONFIG", "SET", ...Object.entries(settings).flat()]);

function writeSecret(id: string, version: number): Change {
  return { kind: "secret", id, version, value: { id, value: id } };
}

/** Returns the ids of the keys in a JWK set; the first key signs. */
function jwksOf({ jwks }: { readonly jwks: string }): string[] {
  return JSON.parse(jwks).keys.map(({ kid }: { kid: string }) => kid);
}

function names({
  profiles,
}: {
  readonly profiles: readonly { readonly name: string }[];
}): string[] {
  return profiles.map(({ name }) => name);
}

async function create({ frontend }: Running, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let made = 0; made < count; made++) {
    const ticketId = randomUUID();
    await insist(() => frontend.createTicket({ ticketId }));
    ids.push(ticketId);
  }
  return ids;
}

/**
 * Returns the matchmakers that lead. During a change of leaders, no matchmaker may lead. Two may lead for a
 * moment, if a matchmaker that stood still has not yet noticed its successor.
 */
function leaders(...running: readonly Running[]): Running[] {
  return running.filter(({ matchmaker }) => matchmaker.isLeading);
}

/** Retries until a call succeeds, as clients do. The call must be safe to repeat. */
async function insist<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!isStoreError(error, "unavailable") && !/\[unavailable\]/.test(String(error))) {
        throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

async function heard({ events }: Running, kind: MatchmakerEvent["kind"]): Promise<void> {
  while (!events.some((event) => event.kind === kind)) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
