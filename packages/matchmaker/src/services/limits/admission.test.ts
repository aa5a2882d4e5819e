// SPDX-License-Identifier: Apache-2.0
import type { ClientHttp2Session } from "node:http2";
import { connect as connectTcp } from "node:net";
import { Code, ConnectError, createClient, createRouterTransport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { AdminService, FrontendService, RegistryService } from "@dm-env-rpc/protocol/matchmaker";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { byName } from "../../../testing/callers.ts";
import { Fleet } from "../../../testing/fleet.ts";
import { pairs } from "../../../testing/pairs.ts";
import { begin, connectFrom, type RawStatus } from "../../../testing/raw-calls.ts";
import { SimulatedServer, SimulatedServers } from "../../../testing/simulated-servers.ts";
import { serveCounting } from "../../../testing/world-server.ts";
import { type MatchmakerSettings, settingsFrom } from "../../model/settings.ts";
import { type MatchmakerServer, serveMatchmaker } from "../../serve-matchmaker.ts";
import { memoryStore } from "../../store/memory-store.ts";
import { type AuthorizeCall, type CallerRole, requireCallerRole } from "../authorize.ts";
import { Admission } from "./admission.ts";

/** Clients that call from an address of this machine. */
function clientsFrom(served: MatchmakerServer, localAddress = "127.0.0.1") {
  const transport = createGrpcTransport({
    baseUrl: served.url,
    nodeOptions: {
      createConnection: () => connectTcp({ host: served.host, port: served.port, localAddress }),
    },
  });
  return {
    frontend: createClient(FrontendService, transport),
    registry: createClient(RegistryService, transport),
    admin: createClient(AdminService, transport),
  };
}

/** Opens a watch of a ticket and waits for its first message. */
async function watch(
  { frontend }: ReturnType<typeof clientsFrom>,
  ticketId: string,
  name = "nobody",
): Promise<AbortController> {
  const ending = new AbortController();
  const stream = frontend.watchTicket({ ticketId }, { signal: ending.signal, headers: { name } });
  await stream[Symbol.asyncIterator]().next();
  return ending;
}

/** Begins a call whose request never ends. */
function beginCall(session: ClientHttp2Session, path: string): Promise<RawStatus> {
  return begin(session, { path, body: Buffer.alloc(1), ends: false });
}

const refusedBy = (limit: string) => (error: unknown) => {
  expect(String(error)).toContain(`[resource_exhausted]`);
  expect(String(error)).toContain(`(limit: ${limit})`);
  expect(Number(ConnectError.from(error).metadata.get("retry-after"))).toBeGreaterThan(0);
};

const server = {
  capacity: { maxWorlds: 1, maxAgents: 2 },
  worldTypes: ["counting"],
};

describe("the watches of one caller", () => {
  it.each([
    ["address", undefined],
    ["identity", byName],
  ])("have a limit by %s, and leave room for other callers", async (_, authorize) => {
    const settings = { maxWatchesPerCaller: 5, maxWatches: 8 };
    await using served = await serveMatchmaker({ profiles: [pairs], settings, authorize });
    const clients = clientsFrom(served);
    const other = authorize === undefined ? clientsFrom(served, "127.0.0.2") : clients;
    const headers = { name: "greedy" };
    await clients.frontend.createTicket({ ticketId: "one" }, { headers });
    const watches = [];
    for (let count = 0; count < 5; count++) {
      watches.push(await watch(clients, "one", "greedy"));
    }
    await watch(clients, "one", "greedy").then(
      () => expect.unreachable(),
      refusedBy("maxWatchesPerCaller"),
    );
    await other.frontend.createTicket({ ticketId: "two" }, { headers: { name: "modest" } });
    await watch(other, "two", "modest");
    // A watch that ends makes room for another watch.
    watches[0]?.abort();
    await expect
      .poll(() => watch(clients, "one", "greedy").then(() => "open", String))
      .toBe("open");
  });
});

it("waiting agents that use up all watches leave room for registrations, operators and other calls", async () => {
  await using served = await serveMatchmaker({
    profiles: [pairs],
    settings: { maxWatches: 10, maxCalls: 4, reservedCalls: 4 },
    authorize: byName,
  });
  const clients = clientsFrom(served);
  for (let agent = 0; agent < 10; agent++) {
    const headers = { name: `agent-${agent}` };
    const ticketId = `ticket-${agent}`;
    await clients.frontend.createTicket({ ticketId, profile: "pairs" }, { headers });
    await watch(clients, ticketId, `agent-${agent}`);
  }
  await watch(clients, "ticket-1", "agent-1").then(
    () => expect.unreachable(),
    refusedBy("maxWatches"),
  );
  const headers = { name: "operator" };
  const { tickets } = await clients.admin.listTickets({}, { headers });
  expect(tickets).toHaveLength(10);
  await using registered = await serveCounting(served.url, {
    transports: [
      createGrpcTransport({
        baseUrl: served.url,
        interceptors: [
          (next) => (request) => {
            request.header.set("name", "operator");
            return next(request);
          },
        ],
      }),
    ],
  });
  await registered.registration.registered;
  await clients.frontend.getTicket({ ticketId: "ticket-2" }, { headers: { name: "agent-2" } });
});

it("a few addresses cannot fill the reserve with requests that never end, and the reserve is free again once their connections are closed", async () => {
  await using served = await serveMatchmaker({ settings: { reservedCalls: 16 } });
  const hostile = ["127.0.0.2", "127.0.0.3"].map((host) => connectFrom(served, host));
  const path = "/matchmaker.v1.RegistryService/RegisterServer";
  try {
    for (const session of hostile) {
      const answers = Array.from({ length: 3 }, () => beginCall(session, path));
      const refused = await Promise.race(answers);
      expect(refused.message).toMatch(
        /too many calls .* with incomplete requests: expected at most 2 from one address, .*\(limit: reservedCalls\)/,
      );
    }
    const { admin } = clientsFrom(served);
    await Promise.all([admin.listServers({}), admin.listServers({})]);
    // Requests that have been read do not count.
    for (let call = 0; call < 5; call++) {
      await admin.listServers({});
    }
    for (const session of hostile) {
      session.destroy();
    }
    const freed = clientsFrom(served, "127.0.0.2").admin;
    await expect.poll(() => freed.listServers({}).catch(() => undefined)).toBeDefined();
  } finally {
    for (const session of hostile) {
      session.destroy();
    }
  }
});

it("unfinished requests of one address leave room for other addresses", async () => {
  await using served = await serveMatchmaker({
    settings: { maxCallsPerCaller: 3, maxCalls: 5, reservedCalls: 5 },
  });
  const hostile = connectFrom(served);
  try {
    for (const [path, limit] of [
      ["FrontendService/CreateTicket", "maxCallsPerCaller"],
      ["RegistryService/RegisterServer", "reservedCalls"],
    ] as const) {
      const answers = Array.from({ length: 4 }, () => beginCall(hostile, `/matchmaker.v1.${path}`));
      const refused = await Promise.race(answers);
      expect(refused).toMatchObject({
        status: "8",
        retryAfter: "5",
        message: expect.stringContaining(`limit: ${limit}`),
      });
    }
    const { frontend, registry } = clientsFrom(served, "127.0.0.2");
    await frontend.createTicket({});
    await expect(
      registry.registerServer({ ...server, serverId: "s", address: "127.0.0.1:1" }),
    ).rejects.toThrow(/failed_precondition/);
  } finally {
    hostile.destroy();
  }
});

describe("the calls of one server credential", () => {
  /** Grants the roles in the metadata `roles`; the callers of a fleet share one credential without an identity. */
  const byRoles: AuthorizeCall = ({ metadata }) => ({
    roles: (metadata.get("roles") ?? "agent").split(" ") as CallerRole[],
  });
  const asServer = { headers: { roles: "agent server" } };
  const asOperator = { headers: { roles: "operator" } };

  it("leave room for operators, for reports if they are registrations, and again for registrations once they end", async () => {
    const servers = new SimulatedServers();
    let held = 0;
    let hold: Promise<void> | undefined;
    const store = memoryStore();
    await using served = await serveMatchmaker({
      settings: { reservedCalls: 16 },
      authorize: byRoles,
      servers,
      store: {
        ...store,
        async read(keys) {
          if (hold !== undefined && keys.some(({ id }) => id.startsWith("held"))) {
            held += 1;
            await hold;
          }
          return await store.read(keys);
        },
      },
    });
    const { registry, admin } = clientsFrom(served);
    const registrationOf = (serverId: string) => {
      const { id, address } = servers.add(new SimulatedServer(serverId));
      return registry.registerServer({ ...server, serverId: id, address }, asServer);
    };
    const { epoch } = await registrationOf("known");
    const registrations: Promise<unknown>[] = [];
    const release = servers.hold("check");
    for (let index = 0; index < 12; index++) {
      registrations.push(registrationOf(`s${index}`));
      await expect.poll(() => servers.calls.length).toBe(registrations.length + 1);
    }
    const refusedAs = (what: string, most: number) => (error: unknown) => {
      refusedBy("reservedCalls")(error);
      expect(String(error)).toContain(`too many ${what}: expected at most ${most} at a time`);
    };
    await registrationOf("late").then(
      () => expect.unreachable(),
      refusedAs("registrations of servers", 12),
    );
    await registry.renewServer({ serverId: "known", epoch }, asServer);
    let goOn = (): void => {};
    hold = new Promise((resolve) => {
      goOn = resolve;
    });
    const drains: Promise<unknown>[] = [];
    for (let index = 0; index < 2; index++) {
      drains.push(registry.drainServer({ serverId: `held-${index}` }, asServer).catch(String));
      await expect.poll(() => held).toBe(drains.length);
    }
    await registry
      .renewServer({ serverId: "known", epoch }, asServer)
      .then(() => expect.unreachable(), refusedAs("calls of servers", 14));
    await admin.listServers({}, asOperator);
    await registry.drainServer({ serverId: "known" }, asOperator);
    release();
    await Promise.all(registrations);
    goOn();
    await Promise.all(drains);
    await registrationOf("late");
  });

  it("have the limits of an agent for tickets and watches, but no rate for reports", async () => {
    await using served = await serveMatchmaker({
      profiles: [pairs],
      settings: { maxWatchesPerCaller: 2, maxCallsPerSecond: 5 },
      authorize: byRoles,
      time: manualTime(),
    });
    const { frontend, registry } = clientsFrom(served);
    for (let count = 0; count < 50; count++) {
      await expect(registry.renewServer({ serverId: "none" }, asServer)).rejects.toMatchObject({
        code: Code.NotFound,
      });
    }
    const ticket = { ticketId: "one", ticketSecret: "mine" };
    await frontend.createTicket(ticket, asServer);
    const leaving = new AbortController();
    const watchAs = async ({ headers }: typeof asServer) => {
      const call = { headers, signal: leaving.signal };
      const stream = frontend.watchTicket(ticket, call);
      return await stream[Symbol.asyncIterator]().next();
    };
    await watchAs(asServer);
    await watchAs(asServer);
    await watchAs(asServer).then(() => expect.unreachable(), refusedBy("maxWatchesPerCaller"));
    const call = () => frontend.getTicket(ticket, asServer);
    const calls = async (): Promise<unknown> => {
      for (;;) {
        await call();
      }
    };
    await calls().then(() => expect.unreachable(), refusedBy("maxCallsPerSecond"));
    await frontend.getTicket(ticket, asOperator);
    leaving.abort();
  });
});

it("the connections of one address are limited", async () => {
  await using served = await serveMatchmaker({ settings: { maxConnectionsPerAddress: 2 } });
  const call = (localAddress: string) =>
    clientsFrom(served, localAddress).frontend.createTicket({}, { timeoutMs: 60_000 });
  await call("127.0.0.1");
  await call("127.0.0.1");
  await expect(call("127.0.0.1")).rejects.toThrow();
  await call("127.0.0.2");
});

describe("the calls of a listener", () => {
  const watch = "/matchmaker.v1.FrontendService/WatchTicket";
  const create = "/matchmaker.v1.FrontendService/CreateTicket";
  const register = "/matchmaker.v1.RegistryService/RegisterServer";
  const health = "/grpc.health.v1.Health/Check";
  const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

  /** Admits calls by path and IP address. */
  function listener(settings: Partial<MatchmakerSettings>) {
    const { admit } = new Admission(settingsFrom(settings), manualTime());
    return (path: string, host = "10.0.0.1") =>
      admit({
        path,
        peer: { address: `${host}:5000`, metadata: new Map(), certificate: undefined },
        refused: () => {},
      });
  }

  it.each([
    ["watches", watch, "maxWatches"],
    ["other calls of agents", create, "maxCalls"],
    ["calls of servers", register, "reservedCalls"],
  ] as const)("have a limit on %s; ended calls do not count", (_, path, limit) => {
    const admit = listener({ maxWatches: 9, maxCalls: 9, reservedCalls: 9, [limit]: 3 });
    const others = [watch, create, register, health].filter((other) => other !== path);
    for (let round = 0; round < 2; round++) {
      const open = [1, 2, 3].map((host) => admit(path, `10.0.0.${host}`));
      expect(() => admit(path, "10.0.0.4")).toThrow(`at most 3 at a time`);
      expect(() => admit(path, "10.0.0.4")).toThrow(`(limit: ${limit})`);
      for (const other of others) {
        admit(other, "10.0.0.4")();
      }
      open.shift()?.();
      open.push(admit(path, "10.0.0.4"));
      expect(() => admit(path, "10.0.0.5")).toThrow(`(limit: ${limit})`);
      for (const end of open) {
        end();
      }
    }
  });

  it.each([
    ["watches", watch, "maxWatchesPerCaller"],
    ["calls of agents", create, "maxCallsPerCaller"],
  ] as const)(
    "are limited for the %s of one network; refused and ended calls do not count",
    (_, path, limit) => {
      const admit = listener({ maxWatchesPerCaller: 50, maxCallsPerCaller: 50, [limit]: 2 });
      for (let round = 0; round < 2; round++) {
        const open = [admit(path), admit(path)];
        for (let refused = 0; refused < 3; refused++) {
          expect(() => admit(path)).toThrow(`at most 2 of one caller`);
          expect(() => admit(path)).toThrow(`(limit: ${limit})`);
        }
        const other = [admit(path, "10.0.0.2"), admit(path, "10.0.0.2")];
        open.shift()?.();
        open.push(admit(path));
        expect(() => admit(path)).toThrow(`(limit: ${limit})`);
        for (const end of [...open, ...other]) {
          end();
        }
      }
    },
  );

  it.each([
    ["watches", watch, "maxWatches"],
    ["calls of agents", create, "maxCalls"],
    ["calls of servers", register, "reservedCalls"],
  ] as const)(
    "leave %s for one more network, although twenty others open all they can",
    (_, path, limit) => {
      const admit = listener({ maxWatchesPerCaller: 100, maxCallsPerCaller: 100, [limit]: 1_000 });
      const fill = (host: number): number => {
        for (let count = 0; ; count++) {
          try {
            admit(path, `10.0.0.${host}`);
          } catch (error) {
            expect(String(error)).toMatch(/ of one caller|from one address/);
            return count;
          }
        }
      };
      const most = fill(0);
      for (let host = 1; host < 20; host++) {
        fill(host);
      }
      expect(most).toBe(100);
      expect(fill(20)).toBeGreaterThan(0);
      expect(() => admit(path, "10.0.0.20")).toThrow(`(limit: ${limit})`);
    },
  );

  it("of health and reflection have their own room, and dozens of addresses cannot use it up", () => {
    const admit = listener({ maxCallsPerCaller: 1, maxCallsPerSecond: 1_000 });
    const open = (host: number): number => {
      for (let count = 0; ; count++) {
        try {
          admit(count % 2 === 0 ? health : reflection, `10.0.0.${host}`);
        } catch (error) {
          expect(String(error)).toMatch(
            /too many calls of health and reflection: .* from one address/,
          );
          return count;
        }
      }
    };
    expect(open(0)).toBe(16);
    for (let host = 1; host < 100; host++) {
      expect(open(host)).toBeGreaterThan(0);
    }
    for (const path of [watch, create, register]) {
      admit(path);
    }
  });

  it("of health and reflection leave room as soon as they end", () => {
    const admit = listener({});
    const open = Array.from({ length: 16 }, () => admit(health));
    for (let round = 0; round < 3; round++) {
      expect(() => admit(health)).toThrow("expected at most 16 from one address");
      open.shift()?.();
      open.push(admit(health));
    }
  });

  it("of health use a rate of their own", () => {
    const admit = listener({ maxCallsPerSecond: 1 });
    for (let count = 0; count < 4; count++) {
      admit(health)();
    }
    expect(() => admit(health)).toThrow("(limit: maxCallsPerSecond)");
    admit(health, "10.0.0.2")();
    admit(create)();
  });

  it("do not count towards maxCalls if they are refused by maxCallsPerCaller", () => {
    const admit = listener({ maxCalls: 3, maxCallsPerCaller: 1 });
    admit(create);
    for (let refused = 0; refused < 5; refused++) {
      expect(() => admit(create)).toThrow("(limit: maxCallsPerCaller)");
    }
    admit(create, "10.0.0.2");
    admit(create, "10.0.0.3");
    expect(() => admit(create, "10.0.0.4")).toThrow("(limit: maxCalls)");
  });

  it.each([
    [7, 1],
    [8, 1],
    [16, 2],
    [31, 4],
  ])(
    "are limited while their requests are unread: a reserve of %i calls admits at most %i from one network",
    (reservedCalls, most) => {
      const admit = listener({ reservedCalls });
      for (let round = 0; round < 2; round++) {
        const open = Array.from({ length: most }, () => admit(register));
        expect(() => admit(register)).toThrow(`at most ${most} from one address`);
        expect(() => admit(register)).toThrow("(limit: reservedCalls)");
        open.push(admit(register, "10.0.0.2"));
        open.shift()?.();
        open.push(admit(register));
        expect(() => admit(register)).toThrow("(limit: reservedCalls)");
        for (const end of open) {
          end();
        }
      }
    },
  );

  it("do not fill the reserve while their requests are unread, even from dozens of addresses", () => {
    const admit = listener({ reservedCalls: 100 });
    const open = (host: number): number => {
      for (let count = 0; ; count++) {
        try {
          admit(register, `10.0.0.${host}`);
        } catch (error) {
          expect(String(error)).toMatch(/with incomplete requests: .* \(limit: reservedCalls\)/);
          return count;
        }
      }
    };
    expect(open(0)).toBe(12);
    for (let host = 1; host < 24; host++) {
      expect(open(host)).toBeGreaterThan(0);
    }
  });

  it("do not count as unread requests if they are refused by maxCallsPerCaller", () => {
    const admit = listener({ reservedCalls: 16, maxCallsPerCaller: 1 });
    const end = admit(register);
    for (let refused = 0; refused < 3; refused++) {
      expect(() => admit(register)).toThrow("(limit: maxCallsPerCaller)");
    }
    end();
    admit(register);
  });

  it("have no limit per caller within the matchmaker's own process", () => {
    const { admit } = new Admission(
      settingsFrom({ maxCallsPerCaller: 1, reservedCalls: 8 }),
      manualTime(),
    );
    const peer = { address: "unknown", metadata: new Map(), certificate: undefined };
    for (const path of [create, register]) {
      for (let call = 0; call < 3; call++) {
        admit({ path, peer, refused: () => {} });
      }
    }
  });
});

it("calls that end before their caller is identified leave the caller's limits unused", async () => {
  let identify = (): void => {};
  const identified = new Promise<void>((resolve) => {
    identify = resolve;
  });
  let pending = 0;
  await using served = await serveMatchmaker({
    settings: { maxCallsPerCaller: 3 },
    async authorize({ metadata }) {
      if (metadata.get("name") === "slow") {
        pending += 1;
        await identified;
      }
      return { identity: "one", roles: ["agent"] };
    },
  });
  const { frontend } = clientsFrom(served);
  const leaving = new AbortController();
  const options = { signal: leaving.signal, headers: { name: "slow" } };
  const left = Array.from({ length: 3 }, () => frontend.createTicket({}, options).catch(String));
  await expect.poll(() => pending).toBe(3);
  leaving.abort();
  await Promise.all(left);
  await frontend.createTicket({}, { headers: { name: "quick" } });
  identify();
  const calls = Array.from({ length: 3 }, () => frontend.createTicket({}));
  await Promise.all(calls);
});

it("calls of an identified caller use the caller's limits, and no longer the limits of its network", async () => {
  let release = (): void => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const store = memoryStore();
  let held = 0;
  await using served = await serveMatchmaker({
    settings: { maxCallsPerCaller: 2, reservedCalls: 100 },
    authorize: byName,
    store: {
      ...store,
      async read(keys) {
        if (keys.some(({ id }) => id.startsWith("held"))) {
          held += 1;
          await released;
        }
        return await store.read(keys);
      },
    },
  });
  const { frontend } = clientsFrom(served);
  const call = (name: string) =>
    frontend.getTicket({ ticketId: `held-${name}` }, { headers: { name } }).catch(String);
  const answers: Promise<unknown>[] = [];
  for (const name of ["one", "one", "two", "two", "operator", "operator", "operator"]) {
    answers.push(call(name));
    // All callers are in one network, which has room for two calls whose callers are not identified yet. So
    // each call is identified before the next one begins.
    await expect.poll(() => held).toBe(answers.length);
  }
  expect(await call("one")).toContain("(limit: maxCallsPerCaller)");
  expect(await call("two")).toContain("(limit: maxCallsPerCaller)");
  release();
  for (const answer of await Promise.all(answers)) {
    expect(answer).toContain("[not_found]");
  }
});

it("a request that has been read no longer counts as unread, even before it is answered", async () => {
  const servers = new SimulatedServers();
  const release = servers.hold("check");
  await using served = await serveMatchmaker({ settings: { reservedCalls: 16 }, servers });
  const { registry } = clientsFrom(served);
  const answers: Promise<unknown>[] = [];
  for (let index = 0; index < 5; index++) {
    const { id, address } = servers.add(new SimulatedServer(`s${index}`));
    answers.push(registry.registerServer({ ...server, serverId: id, address }));
    await expect.poll(() => servers.calls.length).toBe(answers.length);
  }
  release();
  await Promise.all(answers);
});

it("a caller that has used up its rate is remembered among ten thousand others", async () => {
  const time = manualTime();
  const admission = new Admission(settingsFrom({ maxCallsPerSecond: 1 }), time);
  const requestGate = admission.gate(requireCallerRole(byName, ["agent"]));
  const { cancelTicket } = createClient(
    FrontendService,
    createRouterTransport(({ service }) => service(FrontendService, { cancelTicket: () => ({}) }), {
      router: { requestGate },
    }),
  );
  const call = (name: string) => cancelTicket({}, { headers: { name } });
  time.advance(3_000);
  for (let count = 0; count < 4; count++) {
    await call("busy");
  }
  for (let other = 0; other < 10_000; other++) {
    await call(`other-${other}`);
  }
  time.advance(1_000);
  await call("another");
  await call("busy");
  await expect(call("busy")).rejects.toMatchObject({ code: Code.ResourceExhausted });
});

describe("a caller", () => {
  it("is refused past its rate of calls, and the error says when to call again", async () => {
    await using fleet = await Fleet.open({
      authorize: byName,
      settings: { maxCallsPerSecond: 5 },
    });
    const call = (name: string) => fleet.frontend.createTicket({}, { headers: { name } });
    for (let count = 0; count < 20; count++) {
      await call("quick");
    }
    await call("quick").then(() => expect.unreachable(), refusedBy("maxCallsPerSecond"));
    await call("slow");
    fleet.time.advance(1_000);
    for (let count = 0; count < 5; count++) {
      await call("quick");
    }
    await expect(call("quick")).rejects.toMatchObject({ code: Code.ResourceExhausted });
  });

  it("has a limit on its open tickets, and on the bytes of all its tickets", async () => {
    await using fleet = await Fleet.open({
      authorize: byName,
      settings: { maxTicketsPerCaller: 2, maxTicketsBytesPerCaller: 10_000 },
    });
    const options = { headers: { name: "greedy" } };
    await fleet.frontend.createTicket({ ticketId: "a" }, options);
    await fleet.frontend.createTicket({ ticketId: "b" }, options);
    await fleet.frontend
      .createTicket({ ticketId: "c" }, options)
      .then(() => expect.unreachable(), refusedBy("maxTicketsPerCaller"));
    await fleet.frontend.createTicket({}, { headers: { name: "modest" } });
    await fleet.frontend.cancelTicket({ ticketId: "a" }, options);
    await fleet.frontend.createTicket({ ticketId: "c" }, options);
    await fleet.frontend.cancelTicket({ ticketId: "b" }, options);
    const large = { searchFields: { strings: { text: "x".repeat(4_000) } } };
    await fleet.frontend
      .createTicket(large, options)
      .then(() => expect.unreachable(), refusedBy("maxTicketsBytesPerCaller"));
  });

  it.each([
    ["tickets", { maxTickets: 400, maxTicketsPerCaller: 40 }, "maxTickets"],
    ["bytes", { maxTicketsBytes: 400_000, maxTicketsBytesPerCaller: 40_000 }, "maxTicketsBytes"],
  ])(
    "can still create a ticket after ten others have used up all their %s",
    async (_, settings, limit) => {
      await using fleet = await Fleet.open({ authorize: byName, settings });
      const fill = async (name: string): Promise<string> => {
        for (;;) {
          try {
            await fleet.frontend.createTicket({}, { headers: { name } });
          } catch (error) {
            return String(error);
          }
        }
      };
      expect(await fill("first")).toContain(`(limit: ${limit}PerCaller)`);
      for (let other = 0; other < 9; other++) {
        await fill(`other ${other}`);
      }
      await fleet.frontend.createTicket({}, { headers: { name: "last" } });
      expect(await fill("last")).toMatch(
        new RegExp(
          `expected at most \\d+ of one caller while \\d+ of \\d+ are free; .*\\(limit: ${limit}\\)`,
        ),
      );
    },
  );

  it("that is an operator has no limits per caller", async () => {
    await using fleet = await Fleet.open({
      authorize: byName,
      settings: { maxTicketsPerCaller: 1, maxCallsPerSecond: 1 },
    });
    for (let count = 0; count < 10; count++) {
      await fleet.frontend.createTicket({}, { headers: { name: "operator" } });
    }
  });
});
