// SPDX-License-Identifier: Apache-2.0
import { Code } from "@connectrpc/connect";
import { MatchState, ServerState, TicketState } from "@dm-env-rpc/protocol/matchmaker";
import { expect, it } from "vitest";
import { eventsOf, Fleet, profile } from "../../testing/fleet.ts";

it("lists tickets by state, or all of them", async () => {
  await using fleet = await Fleet.open();
  await fleet.serve("a");
  const extension = { typeUrl: "example.org/x", value: Uint8Array.of(1, 2, 255) };
  const [first = "", second = "", third = ""] = await fleet.tickets(3, {
    profile: "any",
    searchFields: { doubles: { skill: 7 }, strings: { map: "night" }, tags: ["new"] },
    extensions: { x: extension },
  });
  await fleet.settle();
  await fleet.frontend.cancelTicket({ ticketId: second });
  const idsIn = async (state: TicketState): Promise<string[]> =>
    (await fleet.admin.listTickets({ state })).tickets.map(({ id }) => id);
  expect(await idsIn(TicketState.UNSPECIFIED)).toEqual([first, second, third]);
  expect(await idsIn(TicketState.ASSIGNED)).toEqual([first]);
  expect(await idsIn(TicketState.CANCELLED)).toEqual([second]);
  expect(await idsIn(TicketState.WAITING)).toEqual([third]);
  expect(await idsIn(TicketState.FAILED)).toEqual([]);
  const { tickets } = await fleet.admin.listTickets({});
  const { matches } = await fleet.admin.listMatches({});
  expect(tickets[0]).toMatchObject({
    profile: "any",
    searchFields: { doubles: { skill: 7 }, strings: { map: "night" }, tags: ["new"] },
    extensions: { x: extension },
    matchId: matches[0]?.id,
    assignment: { address: "a.test:1", worldName: "gridworld-1", team: "everyone" },
  });
  expect(tickets[2]).toMatchObject({ matchId: "" });
  expect(tickets[2]?.assignment).toBeUndefined();
  expect(tickets[2]?.error).toBeUndefined();
});

it("a failed ticket is listed with the reason", async () => {
  await using fleet = await Fleet.open({ settings: { maxWaitMs: 1_000 } });
  await fleet.tickets(1);
  await fleet.pass(2_000);
  const { tickets } = await fleet.admin.listTickets({ state: TicketState.FAILED });
  expect(tickets).toMatchObject([
    { error: { code: Code.DeadlineExceeded, message: expect.stringMatching(/maxWaitMs/) } },
  ]);
});

it("matches are listed with their world once the world exists", async () => {
  await using fleet = await Fleet.open({ profiles: [profile({ data: { map: "night" } })] });
  let create = (): void => {};
  const created = new Promise<void>((resolve) => {
    create = resolve;
  });
  fleet.servers.pace = (what) => (what === "create" ? created : Promise.resolve());
  await fleet.serve("a");
  const ids = await fleet.tickets(2);
  await fleet.matchmaker.tick();
  const placed = await fleet.admin.listMatches({});
  expect(placed.matches).toMatchObject([
    { state: MatchState.PLACED, worldName: "", serverId: "a", profile: "any" },
  ]);
  create();
  await fleet.settle();
  expect((await fleet.admin.listMatches({})).matches).toMatchObject([
    {
      id: placed.matches[0]?.id,
      state: MatchState.LIVE,
      worldName: "gridworld-1",
      teams: [{ name: "everyone", ticketIds: ids }],
      data: {},
    },
  ]);
});

it("lists servers with their state, their placed worlds and their reports", async () => {
  await using fleet = await Fleet.open();
  const server = await fleet.serve("a", { maxWorlds: 3, maxAgents: 9 });
  const ids = await fleet.tickets(2);
  await fleet.settle();
  await fleet.joinAll(ids);
  await fleet.pass(1_000);
  expect((await fleet.admin.listServers({})).servers).toMatchObject([
    {
      id: "a",
      address: "a.test:1",
      capacity: { maxWorlds: 3, maxAgents: 9 },
      worldTypes: ["gridworld"],
      joinTokens: true,
      state: ServerState.SERVING,
      worlds: [{ name: "gridworld-1", type: "gridworld", agents: 2, ticketIds: ids, sequences: 1 }],
      placedWorlds: 1,
      placedSeats: 2,
    },
  ]);
  await fleet.registry.drainServer({ serverId: server.id });
  expect((await fleet.admin.listServers({})).servers).toMatchObject([
    { state: ServerState.DRAINING },
  ]);
  server.isUp = false;
  for (let second = 0; second < 20; second++) {
    await fleet.pass(1_000);
  }
  expect((await fleet.admin.listServers({})).servers).toMatchObject([{ state: ServerState.LOST }]);
});

it("lists the open seats of matches whose profile has backfill", async () => {
  const profiles = [profile({ backfill: true }), profile({ name: "other" })];
  await using fleet = await Fleet.open({ profiles });
  const server = await fleet.serve("a");
  const [first = "", second = ""] = await fleet.tickets(2, { profile: "any" });
  const others = await fleet.tickets(2, { profile: "other" });
  await fleet.settle();
  expect((await fleet.admin.listBackfills({})).backfills).toEqual([]);
  await fleet.joinAll([first, second, ...others]);
  await fleet.pass(1_000);
  for (const { tickets } of server.worlds.values()) {
    tickets.delete(first);
    tickets.delete(others[0] ?? "");
  }
  await fleet.pass(2_000);
  const { matchId = "" } = await fleet.ticket(second);
  expect((await fleet.admin.listBackfills({})).backfills).toMatchObject([
    { id: matchId, profile: "any", openSeats: ["everyone"] },
  ]);
  await fleet.admin.deleteProfile({ name: "any" });
  expect((await fleet.admin.listBackfills({})).backfills).toEqual([]);
});

it("a list that fits one page has no next page, and the default page has 100 items", async () => {
  await using fleet = await Fleet.open();
  const ids = await fleet.tickets(101);
  const whole = await fleet.admin.listTickets({ pageSize: 101 });
  expect(whole.tickets.map(({ id }) => id)).toEqual(ids);
  expect(whole.nextPageToken).toBe("");
  const first = await fleet.admin.listTickets({});
  expect(first.tickets).toHaveLength(100);
  expect(first.nextPageToken).toBe(ids[99]);
  const { tickets, nextPageToken } = await fleet.admin.listTickets({
    pageToken: first.nextPageToken,
  });
  expect(tickets.map(({ id }) => id)).toEqual([ids[100]]);
  expect(nextPageToken).toBe("");
  expect((await fleet.admin.listTickets({ pageSize: 1_000 })).tickets).toHaveLength(101);
});

it("the pages of a list have each item once, in order, whatever the order in which the items were created", async () => {
  await using fleet = await Fleet.open();
  const sorted = Array.from({ length: 40 }, (_, index) => `t${10 + index}`);
  // 7 and 40 have no common divisor.
  const created = sorted.map((_, index) => sorted[(index * 7) % sorted.length] ?? "");
  for (const ticketId of [...created.slice(20), ...created.slice(0, 20).reverse()]) {
    await fleet.frontend.createTicket({ ticketId });
  }
  const listed: string[] = [];
  const sizes: number[] = [];
  let pageToken = "";
  do {
    const page = await fleet.admin.listTickets({ pageSize: 3, pageToken });
    listed.push(...page.tickets.map(({ id }) => id));
    sizes.push(page.tickets.length);
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  expect(listed).toEqual(sorted);
  expect(sizes).toEqual([...Array.from({ length: 13 }, () => 3), 1]);
});

it("profiles are put, read, replaced and deleted, and a profile past maxProfiles is refused", async () => {
  await using fleet = await Fleet.open({ settings: { maxProfiles: 2 } });
  const { admin } = fleet;
  await admin.putProfile({ profile: profile({ name: "second" }) });
  await expect(admin.putProfile({ profile: profile({ name: "third" }) })).rejects.toMatchObject({
    code: Code.ResourceExhausted,
    message: expect.stringMatching(/limit: maxProfiles/),
  });
  await admin.putProfile({ profile: profile({ name: "second", count: 5 }) });
  expect((await admin.getProfile({ name: "second" })).profile).toMatchObject({
    matchFunction: { function: { case: "byCount", value: { count: 5 } } },
  });
  expect((await admin.listProfiles({})).profiles.map(({ name }) => name)).toEqual([
    "any",
    "second",
  ]);
  await admin.deleteProfile({ name: "second" });
  for (const call of [
    () => admin.getProfile({ name: "second" }),
    () => admin.deleteProfile({ name: "second" }),
  ]) {
    await expect(call()).rejects.toMatchObject({ code: Code.NotFound });
  }
  await expect(admin.putProfile({})).rejects.toMatchObject({ code: Code.InvalidArgument });
});

it("an operator's watch yields a server at each report, and the removal of a match that ends", async () => {
  await using fleet = await Fleet.open();
  const server = await fleet.serve("a");
  const ids = await fleet.tickets(2);
  await fleet.settle();
  const ended = new AbortController();
  const watch = fleet.admin.watch({}, { signal: ended.signal })[Symbol.asyncIterator]();
  const next = async () => (await watch.next()).value?.change;
  const cases: (string | undefined)[] = [];
  for (let count = 0; count < 5; count++) {
    cases.push((await next())?.case);
  }
  expect(cases).toEqual(["profile", "server", "match", "ticket", "ticket"]);
  await fleet.join(ids[0] ?? "");
  await fleet.report(server);
  expect(await next()).toMatchObject({
    case: "server",
    value: { worlds: [{ agents: 1, ticketIds: [ids[0]] }], placedSeats: 2 },
  });
  for (const ticketId of ids) {
    await fleet.frontend.cancelTicket({ ticketId });
  }
  server.worlds.get("gridworld-1")?.tickets.clear();
  await fleet.pass(60_000);
  const changes: string[] = [];
  while (!changes.includes("removed")) {
    const change = await next();
    changes.push(change?.case === "removed" ? `removed` : `${change?.case}`);
  }
  expect(changes).toContain("ticket");
  ended.abort();
});

it("an operator's watch ends with an error once more than maxWatchQueue changes are unread", async () => {
  await using fleet = await Fleet.open({ settings: { maxWatchQueue: 3 } });
  const watch = fleet.admin.watch({})[Symbol.asyncIterator]();
  expect((await watch.next()).value?.change?.case).toBe("profile");
  await fleet.tickets(3);
  for (let count = 0; count < 3; count++) {
    expect((await watch.next()).value?.change?.case).toBe("ticket");
  }
  await fleet.tickets(5);
  await expect(
    (async () => {
      for (let count = 0; count < 5; count++) {
        await watch.next();
      }
    })(),
  ).rejects.toMatchObject({ code: Code.ResourceExhausted });
  expect([...fleet.matchmaker.refusals]).toEqual([["maxWatchQueue", 1]]);
  expect(eventsOf(fleet, "call-refused")).toMatchObject([
    { reason: "maxWatchQueue", method: "Watch" },
  ]);
});

it("a server past maxServers is refused, and a known server may register again", async () => {
  await using fleet = await Fleet.open({ settings: { maxServers: 1 } });
  const server = await fleet.serve("a");
  await expect(fleet.serve("b")).rejects.toMatchObject({
    code: Code.ResourceExhausted,
    message: expect.stringMatching(/limit: maxServers/),
  });
  await fleet.register(server);
  expect((await fleet.admin.listServers({})).servers.map(({ id }) => id)).toEqual(["a"]);
});

it("lists are sorted by id, over all pages", async () => {
  await using fleet = await Fleet.open();
  for (const id of ["b", "c", "a"]) {
    await fleet.serve(id);
  }
  const first = await fleet.admin.listServers({ pageSize: 2 });
  const next = await fleet.admin.listServers({ pageSize: 2, pageToken: first.nextPageToken });
  expect([first, next].map(({ servers }) => servers.map(({ id }) => id))).toEqual([
    ["a", "b"],
    ["c"],
  ]);
});
