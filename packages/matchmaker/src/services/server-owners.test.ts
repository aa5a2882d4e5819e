// SPDX-License-Identifier: Apache-2.0
import { Code } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { as, refused } from "../../testing/callers.ts";
import { Fleet } from "../../testing/fleet.ts";
import { SimulatedServer } from "../../testing/simulated-servers.ts";
import { isTakenId } from "../errors/taken-id.ts";
import { defaultSettings, type MatchmakerSettings } from "../model/settings.ts";
import type { AuthorizeCall } from "./authorize.ts";

const offer = { capacity: { maxWorlds: 10, maxAgents: 20 }, worldTypes: ["gridworld"] };
const world = { name: "gridworld-1", type: "gridworld" };

/** Identifies each server by the metadata `name`. A call without a name has no identity. */
const servers: AuthorizeCall = ({ metadata }) => {
  const identity = metadata.get("name");
  return { identity, roles: identity === "operator" ? ["operator"] : ["server"] };
};

const fleetOf = (settings?: Partial<MatchmakerSettings>) =>
  Fleet.open({ authorize: servers, ...(settings && { settings }) });

/** Returns the request that registers a server which answers at its address. */
function requestFor(fleet: Fleet, serverId: string) {
  const { address } = fleet.servers.add(new SimulatedServer(serverId));
  return { ...offer, serverId, address };
}

const tickets = (count: number) =>
  Array.from({ length: count }, (_, index) => `${"t".repeat(190)}-${index}`);

describe("a registered server", () => {
  const denied = refused(
    Code.PermissionDenied,
    /server_id: expected the caller that registered server "a", received another caller/,
  );

  it.each([
    ["of another identity", as("bob")],
    ["without an identity", {}],
  ])("cannot be registered, reported, drained or deregistered by a caller %s", async (_, other) => {
    await using fleet = await fleetOf();
    const request = requestFor(fleet, "a");
    const { epoch } = await fleet.registry.registerServer(request, as("alice"));
    for (const call of [
      fleet.registry.registerServer(request, other),
      fleet.registry.renewServer({ serverId: "a", epoch, worlds: [world] }, other),
      fleet.registry.drainServer({ serverId: "a" }, other),
      fleet.registry.deregisterServer({ serverId: "a" }, other),
    ]) {
      await expect(call).rejects.toSatisfy(denied);
      await expect(call).rejects.toSatisfy(isTakenId);
    }
    const { servers: listed } = await fleet.admin.listServers({}, as("operator"));
    expect(listed).toMatchObject([{ id: "a", worlds: [] }]);
    await fleet.registry.renewServer({ serverId: "a", epoch, worlds: [world] }, as("alice"));
    await fleet.registry.drainServer({ serverId: "a" }, as("alice"));
    await fleet.registry.registerServer(request, as("alice"));
    await fleet.registry.deregisterServer({ serverId: "a" }, as("alice"));
  });

  it("needs the secret of its owner too", async () => {
    await using fleet = await fleetOf();
    const request = requestFor(fleet, "a");
    await fleet.registry.registerServer({ ...request, serverSecret: "mine" }, as("alice"));
    await expect(fleet.registry.registerServer(request, as("alice"))).rejects.toSatisfy(
      refused(Code.PermissionDenied, /server_secret: expected the secret/),
    );
    await expect(fleet.registry.registerServer(request, as("alice"))).rejects.toSatisfy(isTakenId);
  });

  it("has a taken id, but a caller without the role of a server is refused for its role", async () => {
    await using fleet = await Fleet.open({ authorize: () => ({ roles: ["agent"] }) });
    const refusal = await fleet.registry
      .registerServer(requestFor(fleet, "a"))
      .catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: Code.PermissionDenied });
    expect(isTakenId(refusal)).toBe(false);
  });

  it("keeps its owner if an operator registers it again", async () => {
    await using fleet = await fleetOf();
    const request = requestFor(fleet, "a");
    await fleet.registry.registerServer(request, as("alice"));
    await fleet.registry.registerServer(request, as("operator"));
    await expect(fleet.registry.drainServer({ serverId: "a" }, as("bob"))).rejects.toSatisfy(
      denied,
    );
    await fleet.registry.drainServer({ serverId: "a" }, as("alice"));
    await fleet.registry.deregisterServer({ serverId: "a" }, as("operator"));
    // Its id is free once the server is removed.
    await fleet.settle();
    await fleet.registry.registerServer(request, as("bob"));
  });

  it("has no owner if its caller has no identity, until a caller with an identity registers it again", async () => {
    await using fleet = await fleetOf();
    const request = requestFor(fleet, "a");
    await fleet.registry.registerServer(request);
    await fleet.registry.drainServer({ serverId: "a" });
    await fleet.registry.registerServer(request, as("alice"));
    await expect(fleet.registry.drainServer({ serverId: "a" })).rejects.toSatisfy(denied);
  });
});

it("by default, a fleet that shares one identity may have all servers and their bytes", () => {
  expect(defaultSettings.maxServersPerCaller).toBe(defaultSettings.maxServers);
  expect(defaultSettings.maxServersBytesPerCaller).toBe(defaultSettings.maxServersBytes);
});

describe("the servers of one caller", () => {
  const tooMany = refused(
    Code.ResourceExhausted,
    /too many servers: expected at most 2 of one caller; .*\(limit: maxServersPerCaller\)/,
  );
  const tooMuch = refused(
    Code.ResourceExhausted,
    /too many bytes of servers .*: expected at most 100000 of one caller, .*\(limit: maxServersBytesPerCaller\)/,
  );

  it("are limited in number, which does not limit other callers and operators", async () => {
    await using fleet = await fleetOf({ maxServersPerCaller: 2 });
    const register = (id: string, options: object) =>
      fleet.registry.registerServer(requestFor(fleet, id), options);
    await register("a1", as("alice"));
    await register("a2", as("alice"));
    await expect(register("a3", as("alice"))).rejects.toSatisfy(tooMany);
    await register("a1", as("alice"));
    await register("b1", as("bob"));
    for (const id of ["x", "y", "z"]) {
      await register(id, {});
      await register(`operator-${id}`, as("operator"));
    }
    await expect(register("x", as("alice"))).rejects.toSatisfy(tooMany);
    await fleet.registry.deregisterServer({ serverId: "a2" }, as("alice"));
    await fleet.settle();
    await register("a3", as("alice"));
  });

  it("are limited in number while their addresses are checked", async () => {
    await using fleet = await fleetOf({ maxServersPerCaller: 2 });
    const release = fleet.servers.hold("check");
    const checked = (id: string) =>
      fleet.servers.calls.filter((call) => call === `check ${id}`).length;
    const register = (id: string) =>
      fleet.registry.registerServer(requestFor(fleet, id), as("alice"));
    const first = [register("a1"), register("a2")];
    await expect.poll(() => [checked("a1"), checked("a2")]).toEqual([1, 1]);
    await expect(register("a3")).rejects.toSatisfy(tooMany);
    release();
    await Promise.all(first);
  });

  it.each([
    ["maxServersPerCaller", { maxServersPerCaller: 10 }],
    ["maxServers, if that is less", { maxServers: 10 }],
  ])(
    "are limited in bytes, but each of them may always report its share by %s",
    async (_, most) => {
      await using fleet = await fleetOf({ maxServersBytesPerCaller: 100_000, ...most });
      const register = (id: string, name: string) =>
        fleet.registry.registerServer(requestFor(fleet, id), as(name));
      const report = (serverId: string, count: number, name: string) =>
        fleet.registry.renewServer(
          { serverId, epoch: 1n, worlds: [{ ...world, ticketIds: tickets(count) }] },
          as(name),
        );
      for (const id of ["greedy", "modest"]) {
        await register(id, "alice");
      }
      await expect(report("greedy", 300, "alice")).rejects.toSatisfy(tooMuch);
      // The same report may be repeated, because it replaces the earlier one.
      for (let count = 0; count < 3; count++) {
        await report("greedy", 225, "alice");
      }
      await report("modest", 20, "alice");
      await expect(report("modest", 30, "alice")).rejects.toSatisfy(tooMuch);
      await expect(register("late", "alice")).rejects.toSatisfy(tooMuch);
      await register("other", "bob");
      await report("other", 225, "bob");
      await report("modest", 30, "operator");
      await report("greedy", 10, "alice");
      await register("late", "alice");
    },
  );

  it("are counted by a matchmaker that starts on the same store", async () => {
    await using fleet = await fleetOf();
    await fleet.registry.registerServer(requestFor(fleet, "a"), as("alice"));
    await using next = await Fleet.open({
      authorize: servers,
      store: fleet.store,
      servers: fleet.servers,
      settings: { maxServersPerCaller: 1 },
    });
    await expect(
      next.registry.registerServer(requestFor(next, "b"), as("alice")),
    ).rejects.toSatisfy(refused(Code.ResourceExhausted, /limit: maxServersPerCaller/));
    await next.registry.registerServer(requestFor(next, "b"), as("bob"));
  });
});
