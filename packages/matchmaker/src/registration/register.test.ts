// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { address, leaseMs, Registry } from "../../testing/registry.ts";
import { startMs } from "../../testing/start-ms.ts";
import { takenId } from "../errors/taken-id.ts";
import { tokenIssuer } from "../tokens/issuer.ts";
import { generateSigningKey } from "../tokens/keys.ts";
import { register, type ServedWorld } from "./register.ts";

const world: ServedWorld = {
  name: "world",
  type: "gridworld",
  agents: 0,
  joins: 0,
  sequences: 0,
};

/** Creates a registry that issues tokens which a registered server accepts. */
async function issuing() {
  const registry = new Registry();
  const key = await generateSigningKey();
  const issuer = await tokenIssuer(() => [key]);
  registry.jwks = issuer.jwks;
  const token = (ticketId: string, serverId = "server") =>
    issuer.joinToken({
      ticketId,
      matchId: "match",
      part: { team: "", role: "", data: {} },
      partySize: 1,
      serverId,
      address,
      worldName: "world",
      seatId: `seat of ${ticketId}`,
      nowMs: startMs,
      expiresMs: startMs + 30_000,
    });
  return { registry, issuer, token };
}

describe("a registration", () => {
  it("registers the server, then renews its lease three times per lease", async () => {
    const registry = new Registry();
    registry.worlds.push(world);
    await using registration = registry.open();
    await registration.registered;
    expect(registry.registrations).toMatchObject([
      {
        serverId: "server",
        address,
        capacity: { maxWorlds: 3, maxAgents: 12 },
        worldTypes: ["gridworld"],
        joinTokens: true,
        worlds: [{ name: "world", type: "gridworld", premade: false }],
        reportNumber: 1n,
      },
    ]);
    expect(registry.events).toEqual([{ kind: "registered", matchmaker: "a.test:1" }]);
    await registry.pass(leaseMs / 3 + 49);
    expect(registry.renewals).toEqual([]);
    await registry.pass(1);
    expect(registry.renewals).toMatchObject([{ serverId: "server", epoch: 7n, reportNumber: 2n }]);
    expect(registry.renewals[0]?.serverSecret).toBe(registry.registrations[0]?.serverSecret);
    await registry.pass(2 * (leaseMs / 3 + 50));
    expect(registry.renewals).toHaveLength(3);
  });

  it("keeps the length of its lease if an answer does not contain the length", async () => {
    const registry = new Registry();
    await using registration = registry.open();
    await registration.registered;
    registry.lease = undefined;
    await registry.pass(3 * (leaseMs / 3 + 50));
    expect(registry.renewals).toHaveLength(3);
  });

  it("reports a change immediately, and the changes of the next 50 ms in one report", async () => {
    const registry = new Registry();
    await using registration = registry.open();
    await registration.registered;
    await registry.pass(1_000);
    registration.changed();
    await registry.settle();
    expect(registry.renewals).toHaveLength(1);
    registration.changed();
    registration.changed();
    await registry.pass(49);
    expect(registry.renewals).toHaveLength(1);
    await registry.pass(1);
    expect(registry.renewals).toHaveLength(2);
    await registry.pass(1_000);
    expect(registry.renewals).toHaveLength(2);
  });

  it("reports the load that the server's function returns", async () => {
    const registry = new Registry();
    let load = 0.25;
    await using registration = register({
      ...registry.options,
      worlds: () => [],
      load: () => load,
    });
    await registration.registered;
    expect(registry.registrations[0]?.load).toBe(0.25);
    load = 1;
    await registry.pass(leaseMs / 3 + 50);
    expect(registry.renewals[0]?.load).toBe(1);
  });

  it("reports by default how busy the event loop is", async () => {
    const registry = new Registry();
    await using registration = registry.open();
    await registration.registered;
    const load = registry.registrations[0]?.load ?? Number.NaN;
    expect(load).toBeGreaterThanOrEqual(0);
    expect(load).toBeLessThanOrEqual(1);
  });

  it.each([
    ["throws", () => Number(JSON.parse("{")), /JSON/],
    ["returns a number above 1", () => 1.5, /^load: expected a number from 0 to 1, received 1.5$/],
    ["returns NaN", () => Number.NaN, /received NaN$/],
  ])("keeps its lease and reports no load if the load function %s", async (_, faulty, message) => {
    const registry = new Registry();
    let load: () => number = faulty;
    await using registration = register({
      ...registry.options,
      worlds: () => [],
      load: () => load(),
    });
    await registration.registered;
    await registry.pass(2 * (leaseMs / 3 + 50));
    expect(registry.renewals.map((renewal) => renewal.load)).toEqual([undefined, undefined]);
    // Only one failure is reported until the function returns a load again.
    const failures = () => registry.events.filter(({ kind }) => kind === "load-failed");
    expect(failures()).toEqual([
      {
        kind: "load-failed",
        error: expect.objectContaining({ message: expect.stringMatching(message) }),
      },
    ]);
    load = () => 0.5;
    await registry.pass(leaseMs / 3 + 50);
    expect(registry.renewals.at(-1)?.load).toBe(0.5);
    load = faulty;
    await registry.pass(leaseMs / 3 + 50);
    expect(failures()).toHaveLength(2);
  });

  it("reports the number of agents without a ticket if agents need tokens", async () => {
    const { registry, token } = await issuing();
    const served = { ...world, agents: 3 };
    registry.worlds.push(served);
    await using registration = registry.open();
    await registration.registered;
    await registration.seats.take(await token("one"), "world");
    await registry.pass(100);
    expect(registry.renewals.at(-1)?.worlds).toMatchObject([{ agents: 3, guests: 2 }]);
    // One of two agents with a ticket is joining.
    registry.worlds.splice(0, 1, { ...served, agents: 1 });
    await registration.seats.take(await token("two"), "world");
    await registry.pass(100);
    expect(registry.renewals.at(-1)?.worlds).toMatchObject([{ agents: 1, guests: 0 }]);
    await using open = register({
      ...registry.options,
      ...{ serverId: "open", joinTokens: false, worlds: () => [served] },
    });
    await open.registered;
    expect(registry.registrations.at(-1)?.worlds[0]?.guests).toBeUndefined();
  });

  it("repeats a departure in its reports until the matchmaker has acknowledged the departure", async () => {
    const { registry, token } = await issuing();
    registry.worlds.push(world);
    await using registration = registry.open();
    await registration.registered;
    const seat = await registration.seats.take(await token("one"), "world");
    await registry.pass(100);
    expect(registry.renewals.at(-1)?.worlds).toMatchObject([
      { ticketIds: ["one"], leftTicketIds: [] },
    ]);
    registry.failures.renew.push(Code.Unavailable);
    seat.leave();
    await registry.pass(100);
    await registry.pass(500);
    await registry.pass(leaseMs / 3 + 50);
    const reports = registry.renewals.map(({ worlds }) => worlds[0]?.leftTicketIds);
    expect(reports.slice(-3)).toEqual([["one"], ["one"], []]);
  });

  it("tries the next matchmaker if the current one does not answer, with a growing delay of at most 2 s", async () => {
    const registry = new Registry();
    const { register: failing } = registry.failures;
    failing.push(Code.Unavailable, Code.Unavailable, Code.Unavailable, Code.DeadlineExceeded);
    await using registration = registry.open();
    const asked = ["a: register"];
    for (const [waitMs, next] of [
      [500, "b"],
      [1_000, "a"],
      [2_000, "b"],
      [2_000, "a"],
    ] as const) {
      await registry.pass(waitMs - 1);
      expect(registry.asked).toEqual(asked);
      await registry.pass(1);
      asked.push(`${next}: register`);
      expect(registry.asked).toEqual(asked);
    }
    await registration.registered;
    expect(registry.events).toMatchObject([
      { kind: "failed", matchmaker: "a.test:1", error: { code: "UNAVAILABLE" } },
      { kind: "failed", matchmaker: "b.test:1" },
      { kind: "failed", matchmaker: "a.test:1" },
      { kind: "failed", matchmaker: "b.test:1" },
      { kind: "registered", matchmaker: "a.test:1" },
    ]);
    expect(registry.registrations.map(({ reportNumber }) => reportNumber)).toEqual([
      1n,
      2n,
      3n,
      4n,
      5n,
    ]);
    // After an answer, the delays start over.
    registry.failures.renew.push(Code.Unavailable);
    registration.changed();
    await registry.pass(50);
    expect(registry.renewals).toHaveLength(1);
    await registry.pass(499);
    expect(registry.renewals).toHaveLength(1);
    await registry.pass(1);
    expect(registry.renewals).toHaveLength(2);
  });

  it.each([
    [0, 5_000],
    [1, 10_000],
  ])(
    "waits for the retry-after of a matchmaker without room, with a jitter of %d for %i ms",
    async (jitter, waitMs) => {
      const registry = new Registry();
      registry.jitter = jitter;
      const headers = { "retry-after": "5" };
      const full = new ConnectError("too many servers", Code.ResourceExhausted, headers);
      registry.failures.register.push(full, full);
      await using registration = registry.open();
      for (const attempts of [1, 2]) {
        await registry.pass(waitMs - 1);
        expect(registry.asked).toHaveLength(attempts);
        await registry.pass(1);
        expect(registry.asked).toHaveLength(attempts + 1);
      }
      await registration.registered;
    },
  );

  it.each([
    ["a matchmaker without room, whatever its retry-after", 15_000, 5],
    ["a matchmaker without room, even if the lease is short", 3_000, 4],
  ])("that holds a lease renews it several times per lease at %s", async (_, lease, renewals) => {
    const registry = new Registry();
    registry.lease = lease;
    await using registration = registry.open();
    await registration.registered;
    const headers = { "retry-after": "5" };
    const full = new ConnectError("too many bytes", Code.ResourceExhausted, headers);
    registry.failures.renew.push(...Array.from({ length: renewals - 1 }, () => full));
    await registry.pass(lease - 1);
    expect(registry.asked).toHaveLength(1 + renewals);
    expect(registry.failures.renew).toEqual([]);
    expect(registry.registrations).toHaveLength(1);
  });

  it("that holds a short lease calls the next matchmakers several times per lease", async () => {
    const registry = new Registry();
    registry.lease = 3_000;
    await using registration = registry.open();
    await registration.registered;
    const { Unavailable } = Code;
    registry.failures.renew.push(Unavailable, Unavailable, Unavailable);
    await registry.pass(2_999);
    expect(registry.asked).toEqual(["a: register", "a: renew", "b: renew", "a: renew", "b: renew"]);
  });

  it.each([Code.Unavailable, Code.AlreadyExists])(
    "waits at least half as long as it may after code %i, so that servers call again at different times",
    async (code) => {
      const registry = new Registry();
      registry.jitter = 0;
      registry.failures.register.push(code);
      await using registration = registry.open();
      await registry.pass(249);
      expect(registry.asked).toHaveLength(1);
      await registry.pass(1);
      await registration.registered;
    },
  );

  it.each([Code.NotFound, Code.FailedPrecondition, Code.AlreadyExists])(
    "that is refused with code %i retries the same matchmaker with a growing delay of at most 5 s",
    async (code) => {
      const registry = new Registry();
      registry.failures.register.push(code, code, code, code, code, code);
      await using registration = registry.open();
      let attempts = 1;
      for (const waitMs of [500, 1_000, 2_000, 4_000, 5_000, 5_000]) {
        await registry.pass(waitMs - 1);
        expect(registry.asked).toHaveLength(attempts);
        await registry.pass(1);
        attempts += 1;
        expect(registry.asked).toHaveLength(attempts);
      }
      await registration.registered;
      expect(new Set(registry.asked)).toEqual(new Set(["a: register"]));
    },
  );

  it("registers again immediately if its lease is lost, but waits first if the new lease is lost within its first term", async () => {
    const registry = new Registry();
    registry.worlds.push(world);
    await using registration = registry.open();
    await registration.registered;
    await registry.pass(2 * leaseMs);
    registry.asked.length = 0;
    registry.failures.renew.push(Code.NotFound);
    registration.changed();
    await registry.settle();
    expect(registry.asked).toEqual(["a: renew", "a: register"]);
    expect(registry.registrations.at(-1)?.worlds).toMatchObject([{ name: "world" }]);
    registry.failures.renew.push(Code.NotFound);
    await registry.pass(100);
    registration.changed();
    await registry.settle();
    expect(registry.asked).toEqual(["a: renew", "a: register", "a: renew"]);
    await registry.pass(499);
    expect(registry.asked).toHaveLength(3);
    await registry.pass(1);
    expect(registry.asked.slice(3)).toEqual(["a: register"]);
    // After a lease that was held for a term, the delays start over.
    await registry.pass(2 * leaseMs);
    registry.failures.renew.push(Code.NotFound);
    registry.failures.register.push(Code.AlreadyExists);
    registry.asked.length = 0;
    registration.changed();
    await registry.settle();
    expect(registry.asked).toEqual(["a: renew", "a: register"]);
    await registry.pass(500);
    expect(registry.asked).toEqual(["a: renew", "a: register", "a: register"]);
  });

  it("checks tokens by the clock and keys that the matchmaker sent last", async () => {
    const { registry, token } = await issuing();
    registry.aheadMs = 25_000;
    await using registration = registry.open();
    await registration.registered;
    const [first, second] = [await token("one"), await token("two")];
    await registration.seats.take(first, "world");
    registry.aheadMs = undefined;
    registry.jwks = "";
    await registry.pass(leaseMs / 3 + 50);
    await expect(registration.seats.take(second, "world")).rejects.toMatchObject({
      code: "UNAUTHENTICATED",
      message: expect.stringMatching(/expired/),
    });
  });

  it("admits an agent whose seat is held by its token of an earlier key, after a matchmaker without a store has restarted", async () => {
    const { registry, token } = await issuing();
    await using registration = registry.open();
    await registration.registered;
    const mine = await token("one");
    (await registration.seats.take(mine, "world")).hold();
    for (let restart = 0; restart < 3; restart++) {
      registry.jwks = (await issuing()).issuer.jwks;
      registry.failures.renew.push(Code.NotFound);
      await registry.pass(leaseMs);
    }
    await registry.pass(600_000);
    (await registration.seats.take(mine, "world")).hold();
    await registration.seats.take(mine, "world");
    await expect(registration.seats.take(mine, "world")).rejects.toMatchObject({
      code: "UNAUTHENTICATED",
    });
  });

  describe("whose id another process has taken", () => {
    const taken = takenId("server_secret: expected the secret that server registered with");

    it("registers with another id, and admits the agents of both ids", async () => {
      const { registry, token, issuer } = await issuing();
      const { serverId: _, ...options } = registry.options;
      await using registration = register({ ...options, worlds: () => registry.worlds });
      await registration.registered;
      const first = registration.serverId;
      registry.failures.renew.push(taken);
      await registry.pass(leaseMs);
      const second = registration.serverId;
      expect(second).not.toBe(first);
      expect(registry.registrations.map(({ serverId }) => serverId)).toEqual([first, second]);
      expect(registry.renewals.at(-1)?.serverId).toBe(second);
      await registration.seats.take(await token("one", first), "world");
      await registration.seats.take(await token("two", second), "world");
      await expect(
        registration.seats.take(await token("three", "other"), "world"),
      ).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
      const rolesFor = async (id: string) => {
        const operator = await issuer.operatorToken({ id, address }, startMs, startMs + 60_000);
        const metadata = new Map([["authorization", `Bearer ${operator}`]]);
        return await registration.authorize({ metadata });
      };
      expect([await rolesFor(first), await rolesFor(second)]).toEqual([["agent"], ["operator"]]);
    });

    it("changes its id with a growing delay if each id is taken, and admits the agents of the last eight", async () => {
      const { registry, token } = await issuing();
      registry.aheadMs = -60_000;
      const { serverId: _, ...options } = registry.options;
      await using registration = register({ ...options, worlds: () => registry.worlds });
      await registration.registered;
      registry.failures.renew.push(taken);
      registry.failures.register.push(...Array.from({ length: 8 }, () => taken));
      registration.changed();
      await registry.pass(50 + 500 + 1_000 + 2_000 + 4_000 + 4 * 5_000);
      expect(registry.registrations).toHaveLength(9);
      await registry.pass(5_000);
      const ids = registry.registrations.map(({ serverId }) => serverId);
      expect(new Set(ids).size).toBe(10);
      expect(ids.at(-1)).toBe(registration.serverId);
      await registration.seats.take(await token("one", ids[1]), "world");
      await expect(
        registration.seats.take(await token("two", ids[0]), "world"),
      ).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
    });

    it("keeps an id that it was given, reports the error, and registers again with a growing delay", async () => {
      const registry = new Registry();
      await using registration = registry.open();
      await registration.registered;
      await registry.pass(leaseMs);
      registry.failures.renew.push(taken);
      registry.failures.register.push(taken, taken);
      registration.changed();
      await registry.pass(1_500);
      expect(registry.registrations.map(({ serverId }) => serverId)).toEqual(
        Array.from({ length: 4 }, () => "server"),
      );
      expect(new Set(registry.asked)).toEqual(new Set(["a: register", "a: renew"]));
      expect(registry.events.filter(({ kind }) => kind === "failed")).toMatchObject(
        Array.from({ length: 3 }, () => ({
          error: { code: "PERMISSION_DENIED", message: expect.stringContaining("server_secret") },
        })),
      );
    });

    it("keeps its id if it is refused for its role", async () => {
      const registry = new Registry();
      const { serverId: _, ...options } = registry.options;
      await using registration = register({ ...options, worlds: () => registry.worlds });
      await registration.registered;
      const { serverId } = registration;
      registry.failures.renew.push(Code.PermissionDenied);
      registration.changed();
      await registry.pass(leaseMs);
      expect(registration.serverId).toBe(serverId);
      expect(registry.registrations).toHaveLength(1);
    });
  });

  it("sends a drain immediately, or once it is registered", async () => {
    const registry = new Registry();
    registry.failures.register.push(Code.Unavailable);
    await using registration = registry.open();
    await registry.settle();
    await registration.drain();
    expect(registry.asked).toEqual(["a: register"]);
    await registry.pass(500);
    await registration.registered;
    expect(registry.asked).toEqual(["a: register", "b: register", "b: drain"]);
    await registration.drain();
    expect(registry.asked.slice(3)).toEqual(["b: drain"]);
  });

  it("that closes sends a last report and deregisters, even if its lease was lost", async () => {
    const registry = new Registry();
    const registration = registry.open();
    await registration.registered;
    registry.failures.renew.push(Code.NotFound);
    await Promise.all([registration.close(), registration.close()]);
    expect(registry.asked).toEqual(["a: register", "a: renew", "a: deregister"]);
    expect(registry.renewals).toMatchObject([{ reportNumber: 2n, epoch: 7n }]);
  });

  it("that closes sends its last report to one matchmaker after the other until one answers, and to none twice", async () => {
    const registry = new Registry();
    const registration = registry.open();
    await registration.registered;
    registry.failures.renew.push(Code.Unavailable, Code.Unavailable);
    await registration.close();
    expect(registry.asked).toEqual(["a: register", "a: renew", "b: renew"]);
  });

  it("that closes before it was registered makes no further call", async () => {
    const registry = new Registry();
    registry.failures.register.push(Code.Unavailable);
    const registration = registry.open();
    await registry.settle();
    await registration.close();
    await registry.pass(5_000);
    expect(registry.asked).toEqual(["a: register"]);
  });
});

describe("a caller of a registered server", () => {
  it.each([
    ["the matchmaker's token", (token: string) => `Bearer ${token}`, "operator"],
    ['a lower-case "bearer" and two spaces', (token: string) => `bearer  ${token}`, "operator"],
    ["a word before the token", (token: string) => `My Bearer ${token}`, "agent"],
    ["a word after the token", (token: string) => `Bearer ${token} x`, "agent"],
    ["another token", () => "Bearer x", "agent"],
    ["nothing", () => "", "agent"],
  ])("with %s is an %s", async (_, header, role) => {
    const { registry, issuer } = await issuing();
    await using registration = registry.open();
    await registration.registered;
    const token = await issuer.operatorToken({ id: "server", address }, startMs, startMs + 60_000);
    const metadata = new Map([["authorization", header(token)]]);
    expect(await registration.authorize({ metadata })).toEqual([role]);
    expect(await registration.authorize({ metadata: new Map() })).toEqual(["agent"]);
  });
});
