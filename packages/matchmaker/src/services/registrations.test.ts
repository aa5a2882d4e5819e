// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError } from "@connectrpc/connect";
import { ServerState } from "@dm-env-rpc/protocol/matchmaker";
import { describe, expect, it } from "vitest";
import { refused } from "../../testing/callers.ts";
import { eventsOf, Fleet } from "../../testing/fleet.ts";
import { recordsOf } from "../../testing/invariants.ts";
import { SimulatedServer } from "../../testing/simulated-servers.ts";
import { unnotifiedStore } from "../../testing/wrapped-stores.ts";

const offer = {
  capacity: { maxWorlds: 10, maxAgents: 20 },
  worldTypes: ["gridworld"],
  joinTokens: true,
};

const world = { name: "gridworld-1", type: "gridworld", agents: 0, sequences: 0 };

/** Reports with a name that is too long. */
const longReports = [
  ["name of a world", { name: "x".repeat(201) }],
  ["type of a world", { type: "x".repeat(201) }],
  ["ticket_ids of a world", { ticketIds: ["a", "x".repeat(201)] }],
  ["left_ticket_ids of a world", { leftTicketIds: ["a", "x".repeat(201)] }],
].map(([field, part]): [string, object, Code, RegExp] => [
  `a ${field} that is too long`,
  { worlds: [{ ...world, ...Object(part) }] },
  Code.InvalidArgument,
  new RegExp(`${field}: expected at most 200 characters, received 201`),
]);

const longSecret = "hush".repeat(251);
const tooLong =
  /^server_secret: expected at most 1000 characters, received 1004; use a shorter secret$/;

/** A fleet that can reach a server which has not registered. */
async function reaching(...servers: readonly SimulatedServer[]): Promise<Fleet> {
  const fleet = await Fleet.open({ settings: { maxWorldsPerServer: 1 } });
  for (const server of servers) {
    fleet.servers.add(server);
  }
  return fleet;
}

const stateOf = async (fleet: Fleet, id: string): Promise<string | undefined> =>
  (await recordsOf(fleet.store)).server.get(id)?.state;

describe("a registration", () => {
  it("is listed with everything that the server sent, and replaced by a repeated registration", async () => {
    const server = new SimulatedServer("a");
    await using fleet = await reaching(server);
    const request = { ...offer, serverId: "a", address: server.address, region: "eu" };
    const { epoch } = await fleet.registry.registerServer({ ...request, worlds: [world] });
    expect(epoch).toBe(1n);
    expect(eventsOf(fleet, "server-registered")).toEqual([
      { kind: "server-registered", serverId: "a", address: server.address },
    ]);
    const { servers } = await fleet.admin.listServers({});
    expect(servers).toMatchObject([
      {
        id: "a",
        address: server.address,
        capacity: offer.capacity,
        worldTypes: offer.worldTypes,
        region: "eu",
        joinTokens: true,
        state: ServerState.SERVING,
        worlds: [world],
        placedWorlds: 0,
        placedSeats: 0,
      },
    ]);
    // Another registration by the same run replaces the first.
    await fleet.registry.drainServer({ serverId: "a" });
    const again = await fleet.registry.registerServer({ ...request, region: "" });
    expect(again.epoch).toBe(2n);
    const { servers: now } = await fleet.admin.listServers({});
    expect(now).toMatchObject([{ region: "", state: ServerState.SERVING, worlds: [] }]);
  });

  it.each<[string, object, Code, RegExp]>([
    ["no id", { serverId: "" }, Code.InvalidArgument, /server_id: expected an id of 1 to 200/],
    ["an id that is too long", { serverId: "x".repeat(201) }, Code.InvalidArgument, /server_id/],
    ["no capacity", { capacity: undefined }, Code.InvalidArgument, /capacity: expected room/],
    [
      "room for no world",
      { capacity: { maxWorlds: 0, maxAgents: 1 } },
      Code.InvalidArgument,
      /capacity/,
    ],
    [
      "room for no agent",
      { capacity: { maxWorlds: 1, maxAgents: 0 } },
      Code.InvalidArgument,
      /capacity/,
    ],
    ["a region that is too long", { region: "x".repeat(201) }, Code.InvalidArgument, /region/],
    ["no world type", { worldTypes: [] }, Code.InvalidArgument, /world_types: expected 1 to 1000/],
    [
      "too many world types",
      { worldTypes: Array.from({ length: 1_001 }, String) },
      Code.InvalidArgument,
      /received 1001/,
    ],
    [
      "too many worlds",
      { worlds: [world, world] },
      Code.ResourceExhausted,
      /too many worlds: expected at most 1 of one server, received more; .*\(limit: maxWorldsPerServer\)/,
    ],
    [
      "an address that is too long",
      { address: `${"x".repeat(300)}:1` },
      Code.InvalidArgument,
      /address: expected at most 300 characters, received 302/,
    ],
    [
      "a world type to which a server cannot append a number",
      { worldTypes: ["gridworld", "x".repeat(181)] },
      Code.InvalidArgument,
      /world_types: expected at most 180 characters, received 181 \("x{100}…"\)/,
    ],
    ["a secret that is too long", { serverSecret: longSecret }, Code.InvalidArgument, tooLong],
    ...longReports,
  ])("is refused with %s", async (_, request, code, message) => {
    const server = new SimulatedServer("a");
    await using fleet = await reaching(server);
    const valid = { ...offer, serverId: "a", address: server.address };
    await expect(fleet.registry.registerServer({ ...valid, ...request })).rejects.toSatisfy(
      refused(code, message),
    );
    expect(fleet.matchmaker.counts().servers).toBe(0);
  });

  it("may have names, world types and worlds up to their limits", async () => {
    const id = "x".repeat(200);
    const server = new SimulatedServer(id, { address: "a.test:1" });
    await using fleet = await reaching(server);
    await fleet.registry.registerServer({
      serverId: id,
      address: server.address,
      region: "y".repeat(200),
      capacity: { maxWorlds: 1, maxAgents: 1 },
      worldTypes: Array.from({ length: 1_000 }, (_, index) => String(index).padStart(180, "z")),
      serverSecret: "s".repeat(1_000),
      worlds: [{ ...world, name: id, type: id, ticketIds: [id], leftTicketIds: [id] }],
    });
    expect(fleet.matchmaker.counts().servers).toBe(1);
  });

  it("is refused if no server answers at its address, and an event has the reason", async () => {
    const server = new SimulatedServer("a");
    await using fleet = await reaching(server);
    server.isUp = false;
    const request = { ...offer, serverId: "a", address: server.address };
    await expect(fleet.registry.registerServer(request)).rejects.toSatisfy(
      refused(Code.FailedPrecondition, /expected a dm_env_rpc server at "a.test:1"/),
    );
    expect(eventsOf(fleet, "server-refused")).toMatchObject([
      { serverId: "a", address: "a.test:1" },
    ]);
    expect(eventsOf(fleet, "server-refused")[0]?.error.message).toMatch(/no server listens/);
  });

  it("is refused after its server has deregistered, until the server's worlds have ended", async () => {
    const server = new SimulatedServer("a");
    await using fleet = await reaching(server);
    const request = { ...offer, serverId: "a", address: server.address };
    await fleet.registry.registerServer(request);
    await fleet.registry.deregisterServer({ serverId: "a" });
    await expect(fleet.registry.registerServer(request)).rejects.toSatisfy(
      refused(Code.Aborted, /the earlier worlds of server "a" have not ended yet/),
    );
    await fleet.settle();
    expect(eventsOf(fleet, "server-gone")).toEqual([{ kind: "server-gone", serverId: "a" }]);
    await fleet.registry.registerServer(request);
  });

  it("past maxServers is refused, unless the server is already known", async () => {
    await using fleet = await Fleet.open({ settings: { maxServers: 1 } });
    const server = await fleet.serve("a");
    const error: unknown = await fleet.serve("b").catch((thrown: unknown) => thrown);
    expect(error).toSatisfy(
      refused(Code.ResourceExhausted, /too many servers: expected at most 1; .*limit: maxServers/),
    );
    expect(ConnectError.from(error).metadata.get("retry-after")).toBe("5");
    await fleet.register(server);
  });

  it("past maxServers is refused while others are being checked, and a failed one no longer counts", async () => {
    await using fleet = await Fleet.open({ settings: { maxServers: 2 } });
    const release = fleet.servers.hold("check");
    const checks = (id: string): number =>
      fleet.servers.calls.filter((call) => call === `check ${id}`).length;
    const servers = ["a", "b", "c"].map((id) => fleet.servers.add(new SimulatedServer(id)));
    const register = (id: string) =>
      fleet.registry.registerServer({ ...offer, serverId: id, address: `${id}.test:1` });
    const [first, second] = [register("a"), register("b")];
    await expect.poll(() => [checks("a"), checks("b")]).toEqual([1, 1]);
    await expect(register("c")).rejects.toSatisfy(
      refused(Code.ResourceExhausted, /too many servers: expected at most 2; .*limit: maxServers/),
    );
    for (const server of servers.slice(1, 2)) {
      server.isUp = false;
    }
    release();
    await first;
    await expect(second).rejects.toSatisfy(
      refused(Code.FailedPrecondition, /expected a dm_env_rpc server at "b.test:1"/),
    );
    await register("c");
  });

  it("is refused while the address of another registration of the server is being checked, and may then be repeated", async () => {
    await using fleet = await reaching(new SimulatedServer("a"), new SimulatedServer("b"));
    const release = fleet.servers.hold("check");
    const register = (id: string) =>
      fleet.registry.registerServer({ ...offer, serverId: id, address: `${id}.test:1` });
    const first = register("a");
    await expect.poll(() => fleet.servers.calls).toEqual(["check a"]);
    for (let again = 0; again < 3; again++) {
      await expect(register("a")).rejects.toSatisfy(
        refused(
          Code.Aborted,
          /^server_id: expected one registration of server "a" at a time, received another one while the address of the first is being checked; register again later$/,
        ),
      );
    }
    const other = register("b");
    await expect.poll(() => fleet.servers.calls).toEqual(["check a", "check b"]);
    release();
    await Promise.all([first, other]);
    expect((await register("a")).epoch).toBe(2n);
    fleet.servers.all.clear();
    for (let again = 0; again < 2; again++) {
      await expect(register("a")).rejects.toMatchObject({ code: Code.FailedPrecondition });
    }
  });
});

it.each<[string, (fleet: Fleet, request: { serverId: string; serverSecret: string }) => unknown]>([
  ["a report", ({ registry }, request) => registry.renewServer(request)],
  ["a drain", ({ registry }, request) => registry.drainServer(request)],
  ["a deregistration", ({ registry }, request) => registry.deregisterServer(request)],
])("%s with a secret or an id that is too long is refused", async (_, call) => {
  await using fleet = await Fleet.open();
  const serverId = "x".repeat(201);
  await expect(call(fleet, { serverId: "a", serverSecret: longSecret })).rejects.toSatisfy(
    refused(Code.InvalidArgument, tooLong),
  );
  await expect(call(fleet, { serverId, serverSecret: "" })).rejects.toSatisfy(
    refused(Code.InvalidArgument, /^server_id: expected at most 200 characters, received 201/),
  );
});

describe("an address", () => {
  const at = { address: "shared.test:1" };

  it("is refused to a second server while the first one answers there", async () => {
    await using fleet = await reaching(new SimulatedServer("a", at));
    await fleet.registry.registerServer({ ...offer, ...at, serverId: "a" });
    for (const drained of [false, true]) {
      if (drained) {
        await fleet.registry.drainServer({ serverId: "a" });
      }
      await expect(
        fleet.registry.registerServer({ ...offer, ...at, serverId: "b" }),
      ).rejects.toSatisfy(refused(Code.AlreadyExists, /another server, "a", is registered/));
    }
    expect(fleet.matchmaker.counts().servers).toBe(1);
  });

  it.each([
    ["another process answers there", true, "b"],
    ["servers cannot be distinguished, because they have no join tokens", false, "a"],
  ])("goes to the next server if %s", async (_, joinTokens, answers) => {
    const other = new SimulatedServer("other");
    await using fleet = await reaching(other, new SimulatedServer("a", at));
    await fleet.registry.registerServer({ ...offer, serverId: "other", address: other.address });
    await fleet.registry.registerServer({ ...offer, ...at, joinTokens, serverId: "a" });
    fleet.servers.add(new SimulatedServer(answers, at));
    await fleet.registry.registerServer({ ...offer, ...at, serverId: "b" });
    expect(await stateOf(fleet, "a")).toBe("gone");
    expect(await stateOf(fleet, "b")).toBe("serving");
    expect(await stateOf(fleet, "other")).toBe("serving");
    await fleet.settle();
    expect(await stateOf(fleet, "a")).toBeUndefined();
  });

  it("of a lost server goes to the next server, even if the lost one answers there", async () => {
    await using fleet = await Fleet.open({ settings: { serverLeaseMs: 10_000 } });
    const server = await fleet.serve("a", at);
    for (let second = 0; second < 12; second++) {
      fleet.time.advance(1_000);
      await fleet.settle(1);
    }
    expect(await stateOf(fleet, "a")).toBe("lost");
    expect(server.isUp).toBe(true);
    await fleet.registry.registerServer({ ...offer, ...at, serverId: "b" });
    expect(await stateOf(fleet, "a")).toBe("gone");
  });
});

describe("a report", () => {
  it.each<[string, bigint, RegExp, Code]>([
    ["of an earlier registration", 1n, /lease of server "a" has run out/, Code.FailedPrecondition],
    [
      "of a registration that does not exist yet",
      3n,
      /the server has registered again/,
      Code.FailedPrecondition,
    ],
  ])("%s is refused", async (_, epoch, message, code) => {
    const server = new SimulatedServer("a");
    await using fleet = await reaching(server);
    const request = { ...offer, serverId: "a", address: server.address };
    await fleet.registry.registerServer(request);
    await fleet.registry.registerServer(request);
    await fleet.registry.renewServer({ serverId: "a", epoch: 2n, worlds: [world] });
    await expect(
      fleet.registry.renewServer({ serverId: "a", epoch, worlds: [] }),
    ).rejects.toSatisfy(refused(code, message));
    const { servers } = await fleet.admin.listServers({});
    expect(servers).toMatchObject([{ worlds: [world] }]);
  });

  it("of an unknown server, or with too many worlds, is refused", async () => {
    const server = new SimulatedServer("a");
    await using fleet = await reaching(server);
    await expect(fleet.registry.renewServer({ serverId: "a", epoch: 1n })).rejects.toSatisfy(
      refused(Code.NotFound, /"a".*register it again/),
    );
    await fleet.registry.registerServer({ ...offer, serverId: "a", address: server.address });
    await expect(
      fleet.registry.renewServer({ serverId: "a", epoch: 1n, worlds: [world, world] }),
    ).rejects.toSatisfy(refused(Code.ResourceExhausted, /limit: maxWorldsPerServer/));
  });

  it.each(longReports)("with %s is refused", async (_, report, code, message) => {
    const server = new SimulatedServer("a");
    await using fleet = await reaching(server);
    await fleet.registry.registerServer({ ...offer, serverId: "a", address: server.address });
    await expect(
      fleet.registry.renewServer({ serverId: "a", epoch: 1n, ...report }),
    ).rejects.toSatisfy(refused(code, message));
  });

  it("of a server that is lost or gone is refused", async () => {
    await using fleet = await Fleet.open({ settings: { serverLeaseMs: 10_000 } });
    const server = await fleet.serve("a");
    await fleet.registry.deregisterServer({ serverId: "a" });
    await expect(fleet.report(server)).rejects.toSatisfy(
      refused(Code.FailedPrecondition, /lease of server "a"/),
    );
    await fleet.settle();
    await fleet.register(server);
    for (let second = 0; second < 12; second++) {
      fleet.time.advance(1_000);
      await fleet.settle(1);
    }
    expect(await stateOf(fleet, "a")).toBe("lost");
    await expect(fleet.report(server)).rejects.toSatisfy(
      refused(Code.FailedPrecondition, /lease of server "a"/),
    );
  });

  it("is accepted by a matchmaker that does not know the server yet", async () => {
    const server = new SimulatedServer("a");
    await using fleet = await reaching(server);
    await using other = await Fleet.open({
      store: unnotifiedStore(fleet.store),
      servers: fleet.servers,
    });
    await fleet.registry.registerServer({ ...offer, serverId: "a", address: server.address });
    await other.registry.renewServer({ serverId: "a", epoch: 1n, worlds: [world] });
    await fleet.registry.registerServer({ ...offer, serverId: "a", address: server.address });
    await other.registry.renewServer({ serverId: "a", epoch: 2n, worlds: [world] });
  });
});

describe("the data of all servers", () => {
  const tooMuch = refused(
    Code.ResourceExhausted,
    /too many bytes of servers and their reports: expected at most 100000, .*\(limit: maxServersBytes\)/,
  );
  const ids = (count: number) =>
    Array.from({ length: count }, (_, index) => `${"t".repeat(190)}-${index}`);

  it("is limited, but a known server may always report its share", async () => {
    await using fleet = await Fleet.open({
      settings: { maxServersBytes: 100_000, maxServers: 10 },
    });
    const [greedy, modest, late] = ["greedy", "modest", "late"].map((id) =>
      fleet.servers.add(new SimulatedServer(id)),
    );
    if (greedy === undefined || modest === undefined || late === undefined) {
      throw new Error("three servers were expected");
    }
    await fleet.register(greedy);
    await fleet.register(modest);
    const report = (serverId: string, tickets: number) =>
      fleet.registry.renewServer({
        serverId,
        epoch: 1n,
        worlds: [{ ...world, ticketIds: ids(tickets) }],
      });
    await expect(report("greedy", 300)).rejects.toSatisfy(tooMuch);
    // The same report may be repeated, because it replaces the earlier one.
    for (let count = 0; count < 3; count++) {
      await report("greedy", 225);
    }
    await report("modest", 20);
    await expect(report("modest", 30)).rejects.toSatisfy(tooMuch);
    await expect(fleet.register(late)).rejects.toSatisfy(tooMuch);
    // Known servers may register again.
    await fleet.register(modest);
    await report("greedy", 10);
    await fleet.register(late);
  });

  it("includes registrations that are being checked", async () => {
    await using fleet = await Fleet.open({ settings: { maxServersBytes: 100_000 } });
    const release = fleet.servers.hold("check");
    const registering = (id: string) => {
      const { address } = fleet.servers.add(new SimulatedServer(id));
      const worlds = [{ ...world, ticketIds: ids(150) }];
      return fleet.registry.registerServer({ ...offer, serverId: id, address, worlds });
    };
    const first = registering("first");
    await expect.poll(() => fleet.servers.calls).toContain("check first");
    await expect(registering("second")).rejects.toSatisfy(tooMuch);
    release();
    await first;
    await fleet.registry.deregisterServer({ serverId: "first" });
    await fleet.settle();
    await registering("third");
  });
});

describe("a server that leaves", () => {
  it("may drain and deregister repeatedly; a drain after it is gone has no effect or is refused", async () => {
    await using fleet = await Fleet.open();
    await fleet.serve("a");
    await fleet.registry.drainServer({ serverId: "a" });
    await fleet.registry.drainServer({ serverId: "a" });
    expect(await stateOf(fleet, "a")).toBe("draining");
    await fleet.registry.deregisterServer({ serverId: "a" });
    await fleet.registry.drainServer({ serverId: "a" });
    expect(await stateOf(fleet, "a")).toBe("gone");
    await fleet.settle();
    await fleet.registry.deregisterServer({ serverId: "a" });
    await expect(fleet.registry.drainServer({ serverId: "a" })).rejects.toSatisfy(
      refused(Code.NotFound, /"a".*register it first/),
    );
  });
});
