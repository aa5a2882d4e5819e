// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { as } from "../../testing/callers.ts";
import { House, profile } from "../../testing/house.ts";
import type { AuthorizeCall } from "./authorize.ts";

const byName: AuthorizeCall = ({ metadata }) => {
  const name = metadata.get("name");
  if (name === "ann") {
    return { roles: ["agent", "server", "operator"], name: "certificate CN=ann" };
  }
  return { roles: name === "mallory" ? ["agent"] : ["agent", "server"], identity: name };
};

/** The audit events of a house, without the address. */
const auditOf = ({ events }: House) =>
  events.flatMap((event) => {
    if (event.kind !== "operator-called") {
      return [];
    }
    const { who, method, subject, outcome } = event;
    return [[who, method, subject, outcome]];
  });

it("each operator call emits an event with the caller, the call and its result", async () => {
  await using house = await House.open({ authorize: byName });
  await house.admin.putProfile({ profile: profile({ name: "duel" }) }, as("ann"));
  await house.admin.deleteProfile({ name: "duel" }, as("ann"));
  await expect(house.admin.getProfile({ name: "duel" }, as("ann"))).rejects.toThrow();
  await house.admin.listServers({}, as("ann"));
  await expect(house.registry.drainServer({ serverId: "a" }, as("ann"))).rejects.toThrow();
  const stop = new AbortController();
  const watch = house.admin.watch({}, { ...as("ann"), signal: stop.signal });
  await watch[Symbol.asyncIterator]().next();
  stop.abort();
  await house.frontend.createTicket({ ticketId: "t" }, as("bob"));
  await house.frontend.cancelTicket({ ticketId: "t" }, as("ann"));
  const who = "certificate CN=ann";
  expect(auditOf(house)).toEqual([
    [who, "PutProfile", "duel", "OK"],
    [who, "DeleteProfile", "duel", "OK"],
    [who, "GetProfile", "duel", "NOT_FOUND"],
    [who, "ListServers", "", "OK"],
    [who, "DrainServer", "a", "NOT_FOUND"],
    [who, "Watch", "", "OK"],
    [who, "CancelTicket", "t", "OK"],
  ]);
});

it("calls of agents, and calls that were refused for their role, are not audited", async () => {
  await using house = await House.open({ authorize: byName });
  await house.frontend.createTicket({}, as("mallory"));
  await expect(house.admin.listServers({}, as("mallory"))).rejects.toThrow(/permission_denied/);
  expect(auditOf(house)).toEqual([]);
});

it("without authorize, calls of the admin service are audited with the caller's address", async () => {
  await using house = await House.open();
  await house.admin.listProfiles({});
  await house.frontend.createTicket({});
  expect(auditOf(house)).toEqual([[expect.any(String), "ListProfiles", "", "OK"]]);
});
