// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { as } from "../../testing/callers.ts";
import { Fleet, profile } from "../../testing/fleet.ts";
import { SimulatedServer } from "../../testing/simulated-servers.ts";
import type { AuthorizeCall } from "./authorize.ts";

const byName: AuthorizeCall = ({ metadata }) => {
  const name = metadata.get("name");
  if (name === "ann") {
    return { roles: ["agent", "server", "operator"], name: "certificate CN=ann" };
  }
  return { roles: name === "mallory" ? ["agent"] : ["agent", "server"], identity: name };
};

/** The audit events of a fleet, without the address. */
const auditOf = ({ events }: Fleet) =>
  events.flatMap((event) => {
    if (event.kind !== "operator-called") {
      return [];
    }
    const { who, method, subject, outcome } = event;
    return [[who, method, subject, outcome]];
  });

it("each operator call emits an event with the caller, the call and its result", async () => {
  await using fleet = await Fleet.open({ authorize: byName });
  await fleet.admin.putProfile({ profile: profile({ name: "duel" }) }, as("ann"));
  await fleet.admin.deleteProfile({ name: "duel" }, as("ann"));
  await expect(fleet.admin.getProfile({ name: "duel" }, as("ann"))).rejects.toThrow();
  await fleet.admin.listServers({}, as("ann"));
  await expect(fleet.registry.drainServer({ serverId: "a" }, as("ann"))).rejects.toThrow();
  const stop = new AbortController();
  const watch = fleet.admin.watch({}, { ...as("ann"), signal: stop.signal });
  await watch[Symbol.asyncIterator]().next();
  stop.abort();
  await fleet.frontend.createTicket({ ticketId: "t" }, as("bob"));
  const follow = fleet.frontend.watchTicket({ ticketId: "t" }, as("ann"));
  await follow[Symbol.asyncIterator]().next();
  await fleet.frontend.cancelTicket({ ticketId: "t" }, as("ann"));
  const who = "certificate CN=ann";
  expect(auditOf(fleet)).toEqual([
    [who, "PutProfile", "duel", "OK"],
    [who, "DeleteProfile", "duel", "OK"],
    [who, "GetProfile", "duel", "NOT_FOUND"],
    [who, "ListServers", "", "OK"],
    [who, "DrainServer", "a", "NOT_FOUND"],
    [who, "Watch", "", "OK"],
    [who, "WatchTicket", "t", "OK"],
    [who, "CancelTicket", "t", "OK"],
  ]);
});

it("an operator's watch is audited by its first message, or with the code of its error", async () => {
  await using fleet = await Fleet.open({ authorize: byName });
  const follow = (ticketId: string) =>
    fleet.frontend.watchTicket({ ticketId }, as("ann"))[Symbol.asyncIterator]().next();
  await expect(follow("none")).rejects.toThrow(/not_found/);
  await fleet.frontend.createTicket({ ticketId: "t" }, as("bob"));
  await follow("t");
  await fleet.frontend.cancelTicket({ ticketId: "t" }, as("bob"));
  const who = "certificate CN=ann";
  expect(auditOf(fleet)).toEqual([
    [who, "WatchTicket", "none", "NOT_FOUND"],
    [who, "WatchTicket", "t", "OK"],
  ]);
});

it("calls of agents, and calls that were refused for their role, are not audited", async () => {
  await using fleet = await Fleet.open({ authorize: byName });
  await fleet.frontend.createTicket({}, as("mallory"));
  await expect(fleet.admin.listServers({}, as("mallory"))).rejects.toThrow(/permission_denied/);
  expect(auditOf(fleet)).toEqual([]);
});

it("without authorize, calls of the admin service, and drains of a server without its secret, are audited with the caller's address", async () => {
  await using fleet = await Fleet.open();
  await fleet.admin.listProfiles({});
  await fleet.frontend.createTicket({});
  const { address } = fleet.servers.add(new SimulatedServer("a"));
  const capacity = { maxWorlds: 1, maxAgents: 2 };
  const server = { serverId: "a", serverSecret: "known to the server alone" };
  await fleet.registry.registerServer({ ...server, address, capacity, worldTypes: ["gridworld"] });
  await fleet.registry.drainServer(server);
  await fleet.registry.drainServer({ serverId: "a" });
  await fleet.registry.deregisterServer({ serverId: "a" });
  await fleet.registry.deregisterServer(server);
  const who = expect.any(String);
  expect(auditOf(fleet)).toEqual([
    [who, "ListProfiles", "", "OK"],
    [who, "DrainServer", "a", "OK"],
    [who, "DeregisterServer", "a", "OK"],
  ]);
});
