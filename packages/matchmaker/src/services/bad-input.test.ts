// SPDX-License-Identifier: Apache-2.0
import { getEventListeners } from "node:events";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { createHandlerContext } from "@connectrpc/connect";
import {
  AdminService,
  DoubleRangeFilter_Exclude as Exclude,
  MatchFunctionSchema,
  PoolSchema,
  WatchRequestSchema,
  WatchResponse_Kind,
} from "@dm-env-rpc/protocol/matchmaker";
import { describe, expect, it } from "vitest";
import { Fleet, profile } from "../../testing/fleet.ts";
import { MatchIndex } from "../director/indexes/match-index.ts";
import { defaultSettings } from "../model/settings.ts";
import { profileRecord } from "../profiles/profile.ts";
import { put, Replica } from "../replica/replica.ts";
import { memoryStore } from "../store/memory-store.ts";
import { adminService } from "./admin.ts";

const pool = (init: MessageInitShape<typeof PoolSchema>) => [create(PoolSchema, init)];
const match = (init: MessageInitShape<typeof MatchFunctionSchema>) =>
  create(MatchFunctionSchema, init);
const range = (min: number, max: number, exclude: Exclude = Exclude.UNSPECIFIED) =>
  pool({ name: "p", doubleRangeFilters: [{ doubleArg: "skill", min, max, exclude }] });

describe("bad input", () => {
  it.each([
    ["no name", { name: "" }, /name: expected a name/],
    ["no type of world", { worldType: "" }, /world_type/],
    [
      "a type of world that is too long for a server to register",
      { worldType: "x".repeat(181) },
      /world_type: expected at most 180 characters, received 181/,
    ],
    ["no pool", { pools: [] }, /pools: expected 1 to 100/],
    ["an empty range", { pools: range(2, 1) }, /range that contains a number.*min 2 and max 1/],
    [
      "an open range of one point",
      { pools: range(1, 1, Exclude.BOTH) },
      /min 1 and max 1, with bounds excluded/,
    ],
    [
      "a bound that is not a number",
      { pools: range(Number.NaN, 1) },
      /expected a number, received NaN/,
    ],
    [
      "two values for one string",
      {
        pools: pool({
          name: "p",
          stringEqualsFilters: [
            { stringArg: "map", value: "a" },
            { stringArg: "map", value: "b" },
          ],
        }),
      },
      /"a" and "b"/,
    ],
    [
      "no function",
      { matchFunction: match({}) },
      /match_function: expected one of by_count, teams, skill_window, custom,/,
    ],
    ["a count of 0", { count: 0 }, /by_count.count: expected a number from 1/],
    [
      "a window that shrinks",
      {
        matchFunction: match({
          function: {
            case: "skillWindow",
            value: { count: 2, doubleArg: "skill", window: 10, widenPerSecond: -1 },
          },
        }),
      },
      /skill_window\.widen_per_second: expected a number of at least 0, received -1/,
    ],
    ["fewer seats than agents", { count: 4, seats: 3 }, /seats: expected at least the 4/],
    [
      "a team without a pool",
      {
        matchFunction: match({
          function: { case: "teams", value: { teams: [{ name: "a", pool: "none", size: 1 }] } },
        }),
      },
      /pool of team "a": expected one of "all", received "none"/,
    ],
    [
      "an unknown function",
      { matchFunction: match({ function: { case: "custom", value: { name: "mine" } } }), seats: 2 },
      /custom match function.*received "mine"/,
    ],
  ])("a profile with %s is refused", async (_, init, message) => {
    await using fleet = await Fleet.open({ profiles: [] });
    const put = fleet.admin.putProfile({ profile: profile(init) });
    await expect(put).rejects.toThrow(message);
    await expect(put).rejects.toThrow(/\[invalid_argument\]/);
    expect((await fleet.admin.listProfiles({})).profiles).toEqual([]);
  });

  it("the error for a ticket with an unknown profile lists the known profiles", async () => {
    await using fleet = await Fleet.open();
    await expect(fleet.frontend.createTicket({ profile: "chess" })).rejects.toThrow(
      /\[not_found\] unknown profile "chess"; known profiles: "any"/,
    );
  });

  it("a ticket with NaN for a number is refused", async () => {
    await using fleet = await Fleet.open();
    const searchFields = { doubles: { skill: Number.NaN } };
    await expect(fleet.frontend.createTicket({ searchFields })).rejects.toThrow(
      /\[invalid_argument\] search_fields.doubles "skill": expected a finite number, received NaN/,
    );
  });

  it("an unknown ticket is not found", async () => {
    await using fleet = await Fleet.open();
    const call = { ticketId: "nobody" };
    for (const asked of [
      fleet.frontend.getTicket(call),
      fleet.frontend.cancelTicket(call),
      fleet.frontend.watchTicket(call)[Symbol.asyncIterator]().next(),
    ]) {
      await expect(asked).rejects.toThrow(/\[not_found\] unknown ticket "nobody"/);
    }
  });

  it("a repeated create returns the existing ticket; a create of the same id with other content is refused", async () => {
    await using fleet = await Fleet.open();
    const request = { ticketId: "mine", searchFields: { tags: ["red"] } };
    await fleet.frontend.createTicket(request);
    await fleet.frontend.createTicket(request);
    expect((await fleet.admin.listTickets({})).tickets).toHaveLength(1);
    await expect(
      fleet.frontend.createTicket({ ticketId: "mine", searchFields: { tags: ["blue"] } }),
    ).rejects.toThrow(/\[already_exists\]/);
  });

  it("tickets past maxTickets are refused, and the waiting tickets are matched", async () => {
    await using fleet = await Fleet.open({ settings: { maxTickets: 2 } });
    await fleet.serve("a");
    const ids = await fleet.tickets(2);
    await expect(fleet.tickets(1)).rejects.toThrow(/\[resource_exhausted\].*limit: maxTickets/);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  it("a ticket that has waited too long fails, and is forgotten later", async () => {
    await using fleet = await Fleet.open({ settings: { maxWaitMs: 10_000, retainMs: 5_000 } });
    const [id = ""] = await fleet.tickets(1);
    await fleet.pass(11_000);
    expect(await fleet.states([id])).toEqual(["FAILED"]);
    expect((await fleet.ticket(id)).error?.message).toMatch(/no match was found within 10000 ms/);
    await fleet.pass(6_000);
    await expect(fleet.ticket(id)).rejects.toThrow(/not_found/);
  });

  it.each([
    [{ serverId: "" }, /server_id/],
    [{ address: "not an address" }, /\[invalid_argument\].*host:port/],
    [{ capacity: { maxWorlds: 0, maxAgents: 1 } }, /capacity/],
    [{ worldTypes: [] }, /world_types/],
  ])("a server that registers %j is refused", async (wrong, message) => {
    await using fleet = await Fleet.open();
    const right = {
      serverId: "s",
      address: "s.test:1",
      capacity: { maxWorlds: 1, maxAgents: 1 },
      worldTypes: ["gridworld"],
    };
    await expect(fleet.registry.registerServer({ ...right, ...wrong })).rejects.toThrow(message);
    expect((await fleet.admin.listServers({})).servers).toEqual([]);
  });

  it("an operator's watch yields the current records, then the changes", async () => {
    await using fleet = await Fleet.open();
    const ended = new AbortController();
    const watch = fleet.admin.watch({}, { signal: ended.signal })[Symbol.asyncIterator]();
    const next = async () => (await watch.next()).value?.change;
    expect((await next())?.case).toBe("profile");
    const [ticketId = ""] = await fleet.tickets(1);
    expect(await next()).toMatchObject({ case: "ticket", value: { id: ticketId } });
    await fleet.admin.deleteProfile({ name: "any" });
    expect(await next()).toMatchObject({
      case: "removed",
      value: { kind: WatchResponse_Kind.PROFILE, id: "any" },
    });
    ended.abort();
    await expect(next()).rejects.toThrow(/canceled/);
  });

  it("an operator's watch adds no listener for each change", async () => {
    await using store = memoryStore();
    const replica = new Replica(store);
    const context = createHandlerContext({
      service: AdminService,
      method: AdminService.method.watch,
      protocolName: "grpc",
      requestMethod: "POST",
      url: "http://localhost/",
    });
    const before = getEventListeners(context.signal, "abort").length;
    const shared = { replica, settings: defaultSettings, emit: () => {}, newId: () => "" };
    const matchIndex = new MatchIndex(replica, {}, () => {});
    const admin = adminService({ ...shared, matchIndex, functions: {} });
    const changes = admin.watch(create(WatchRequestSchema), context)[Symbol.asyncIterator]();
    for (const name of ["a", "b", "c"]) {
      const next = changes.next();
      await replica.commit([put("profile", name, undefined, profileRecord(profile({ name })))]);
      expect((await next).value?.change).toMatchObject({ value: { name } });
    }
    expect(getEventListeners(context.signal, "abort")).toHaveLength(before + 1);
    await changes.return?.();
    expect(getEventListeners(context.signal, "abort")).toHaveLength(before);
  });

  it("lists are returned in pages", async () => {
    await using fleet = await Fleet.open();
    const ids = await fleet.tickets(5);
    const seen: string[] = [];
    let pageToken = "";
    do {
      const page = await fleet.admin.listTickets({ pageSize: 2, pageToken });
      expect(page.tickets.length).toBeLessThanOrEqual(2);
      seen.push(...page.tickets.map(({ id }) => id));
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
    expect(seen.sort()).toEqual(ids.sort());
    await expect(fleet.admin.listTickets({ pageSize: 5_000 })).rejects.toThrow(/at most 1000/);
  });
});
