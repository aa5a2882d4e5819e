// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError } from "@connectrpc/connect";
import { TicketState } from "@dm-env-rpc/protocol/matchmaker";
import { describe, expect, it } from "vitest";
import { as, byName, refused } from "../../testing/callers.ts";
import { eventsOf, Fleet, profile } from "../../testing/fleet.ts";
import { unnotifiedStore } from "../../testing/wrapped-stores.ts";

describe("a ticket that is created", () => {
  it("has everything that its creator sent, and is returned by a repeated create", async () => {
    await using fleet = await Fleet.open();
    const request = {
      ticketId: "mine",
      profile: "any",
      searchFields: { doubles: { skill: 3 }, strings: { map: "night" }, tags: ["seeker"] },
      extensions: { note: { typeUrl: "type.test/note", value: new Uint8Array([1, 2, 3]) } },
      partySize: 2,
      latenciesMs: { eu: 20, us: 90.5 },
      priority: 4,
    };
    const { ticket } = await fleet.frontend.createTicket(request);
    const content = {
      id: "mine",
      profile: "any",
      searchFields: request.searchFields,
      extensions: request.extensions,
      partySize: 2,
      latenciesMs: { eu: 20, us: 90.5 },
      priority: 4,
      state: TicketState.WAITING,
      matchId: "",
    };
    expect(ticket).toMatchObject(content);
    expect(await fleet.ticket("mine")).toMatchObject(content);
    // The first response may have been lost, so the client repeats the call.
    const repeated = await fleet.frontend.createTicket(request);
    expect(repeated.ticket?.createTime).toEqual(ticket?.createTime);
    expect(fleet.matchmaker.counts().tickets.waiting).toBe(1);
  });

  it("has defaults for the fields that its creator left out", async () => {
    await using fleet = await Fleet.open();
    const { ticket } = await fleet.frontend.createTicket({});
    expect(ticket).toMatchObject({
      partySize: 1,
      latenciesMs: {},
      priority: 0,
      profile: "",
      searchFields: { doubles: {}, strings: {}, tags: [] },
    });
    expect(ticket?.id).not.toBe("");
    await fleet.frontend.createTicket({ ticketId: "single", partySize: 1 });
    await fleet.frontend.createTicket({ ticketId: "single" });
  });

  it.each<[string, object]>([
    ["profile", { profile: "" }],
    ["party size", { partySize: 2 }],
    ["priority", { priority: 2 }],
    ["latencies", { latenciesMs: { eu: 5 } }],
    ["search fields", { searchFields: { tags: ["b"] } }],
    ["extensions", { extensions: { note: { typeUrl: "t", value: new Uint8Array([1]) } } }],
  ])("is refused if its id belongs to a ticket with another %s", async (_, other) => {
    await using fleet = await Fleet.open();
    const request = { ticketId: "mine", profile: "any" };
    await fleet.frontend.createTicket(request);
    await expect(fleet.frontend.createTicket({ ...request, ...other })).rejects.toSatisfy(
      refused(
        Code.AlreadyExists,
        /received "mine" of another caller's ticket, or of a ticket with different content/,
      ),
    );
  });

  it("may have the longest id, the largest party and a latency of 0", async () => {
    await using fleet = await Fleet.open({
      profiles: [profile({ count: 4 })],
      settings: { maxPartySize: 4 },
    });
    const request = { ticketId: "x".repeat(200), partySize: 4, latenciesMs: { eu: 0 } };
    const { ticket } = await fleet.frontend.createTicket(request);
    expect(ticket?.id).toHaveLength(200);
  });

  it.each<[string, object, RegExp]>([
    ["an id that is too long", { ticketId: "x".repeat(201) }, /ticket_id: expected at most 200/],
    [
      "a negative latency",
      { latenciesMs: { eu: -1 } },
      /latencies_ms "eu": expected a number of milliseconds of at least 0, received -1/,
    ],
    [
      "an infinite latency",
      { latenciesMs: { eu: Number.POSITIVE_INFINITY } },
      /latencies_ms "eu".*Infinity/,
    ],
    [
      "a latency that is not a number",
      { latenciesMs: { eu: Number.NaN } },
      /latencies_ms "eu".*NaN/,
    ],
    ["a party over the limit", { partySize: 5 }, /party_size: expected at most 4.*maxPartySize/],
    [
      "a party that is too large for every match",
      { partySize: 3 },
      /party_size: expected at most 2/,
    ],
    [
      "a party that is too large for its profile",
      { partySize: 3, profile: "any" },
      /the largest party that profile "any" accepts/,
    ],
  ])("is refused with %s", async (_, request, message) => {
    await using fleet = await Fleet.open({ settings: { maxPartySize: 4 } });
    await expect(fleet.frontend.createTicket(request)).rejects.toSatisfy(
      refused(Code.InvalidArgument, message),
    );
    expect(fleet.matchmaker.counts().tickets.waiting).toBe(0);
  });

  it("is refused for an unknown profile, and the error lists the known profiles", async () => {
    await using fleet = await Fleet.open({
      profiles: Array.from({ length: 20 }, (_, at) => profile({ name: `profile-${at + 10}` })),
    });
    const creating = fleet.frontend.createTicket({ profile: "other" });
    await expect(creating).rejects.toSatisfy(
      refused(Code.NotFound, /"other".*known profiles: "profile-10".*"profile-25"$/),
    );
    await using empty = await Fleet.open({ profiles: [] });
    await expect(empty.frontend.createTicket({ profile: "other" })).rejects.toSatisfy(
      refused(Code.NotFound, /no profile exists yet/),
    );
  });

  it("may name a profile that another matchmaker has just put", async () => {
    await using fleet = await Fleet.open();
    await using other = await Fleet.open({ store: unnotifiedStore(fleet.store), profiles: [] });
    await fleet.admin.putProfile({ profile: profile({ name: "new" }) });
    const { ticket } = await other.frontend.createTicket({ profile: "new" });
    expect(ticket?.profile).toBe("new");
  });

  it("is refused past maxTicketBytes, and accepted at the limit", async () => {
    await using fleet = await Fleet.open({ settings: { maxTicketBytes: 100 } });
    // The field's tag and length take two bytes.
    await fleet.frontend.createTicket({ ticketId: "x".repeat(98) });
    await expect(fleet.frontend.createTicket({ ticketId: "y".repeat(99) })).rejects.toSatisfy(
      refused(Code.ResourceExhausted, /at most 100 bytes, received one of 101.*maxTicketBytes/),
    );
  });

  it("may have a priority only from an operator, if authorize is configured", async () => {
    await using fleet = await Fleet.open({ authorize: byName });
    const request = { priority: 1 };
    await expect(fleet.frontend.createTicket(request, as("agent"))).rejects.toSatisfy(
      refused(Code.PermissionDenied, /priority: expected 0, received 1; only operators/),
    );
    const { ticket } = await fleet.frontend.createTicket(request, as("operator"));
    expect(ticket?.priority).toBe(1);
    await fleet.frontend.createTicket({ priority: 0 }, as("agent"));
  });
});

describe("the limits of tickets", () => {
  it("refuse a ticket past maxTickets, and accept a repeated create", async () => {
    await using fleet = await Fleet.open({ settings: { maxTickets: 2 } });
    await fleet.frontend.createTicket({ ticketId: "one" });
    await fleet.frontend.createTicket({ ticketId: "two" });
    const error = await fleet.frontend.createTicket({}).catch(ConnectError.from);
    expect(String(error)).toMatch(/too many tickets: expected at most 2; .*limit: maxTickets/);
    await fleet.frontend.createTicket({ ticketId: "two" });
  });

  it.each([
    [
      "maxTicketsBytes",
      /too many bytes of tickets: expected at most \d+; .*limit: maxTicketsBytes\)/,
    ],
    [
      "maxTicketsBytesPerCaller",
      /too many bytes of tickets: expected at most \d+ of one caller; .*maxTicketsBytesPerCaller\)/,
    ],
  ])("bound the memory of tickets exactly (%s)", async (limit, message) => {
    // 700 bytes and two for each character of the id.
    const most = 2 * 700 + 4;
    await using exact = await Fleet.open({ authorize: byName, settings: { [limit]: most } });
    await exact.frontend.createTicket({ ticketId: "a" }, as("agent"));
    await exact.frontend.createTicket({ ticketId: "b" }, as("agent"));
    await expect(exact.frontend.createTicket({ ticketId: "c" }, as("agent"))).rejects.toSatisfy(
      refused(Code.ResourceExhausted, message),
    );
    await using less = await Fleet.open({ authorize: byName, settings: { [limit]: most - 1 } });
    await less.frontend.createTicket({ ticketId: "a" }, as("agent"));
    await expect(less.frontend.createTicket({ ticketId: "b" }, as("agent"))).rejects.toSatisfy(
      refused(Code.ResourceExhausted, message),
    );
  });

  it.each<[string, number, object]>([
    ["numbers", 2 * (5 + 16), { searchFields: { doubles: { skill: 1 } } }],
    ["strings", 2 * (3 + 5 + 16), { searchFields: { strings: { map: "night" } } }],
    ["tags", 2 * (6 + 8), { searchFields: { tags: ["seeker"] } }],
    ["latencies", 2 * (2 + 16), { latenciesMs: { eu: 1 } }],
    ["a profile", 2 * 3, { profile: "any" }],
    [
      "extensions",
      2 * (4 + 1 + 32) + 4,
      { extensions: { note: { typeUrl: "t", value: new Uint8Array(3) } } },
    ],
  ])("count the memory of %s", async (_, bytes, content) => {
    const create = async (maxTicketsBytes: number) => {
      await using fleet = await Fleet.open({ settings: { maxTicketsBytes } });
      await fleet.frontend.createTicket({ ticketId: "a", ...content });
    };
    await create(702 + bytes);
    await expect(create(701 + bytes)).rejects.toThrow(/maxTicketsBytes/);
  });

  it("count only the tickets of one caller that have not ended", async () => {
    await using fleet = await Fleet.open({
      authorize: byName,
      settings: { maxTicketsPerCaller: 2 },
    });
    const create = (name: string) => fleet.frontend.createTicket({}, as(name));
    const { ticket } = await create("one");
    await create("one");
    await expect(create("one")).rejects.toSatisfy(
      refused(
        Code.ResourceExhausted,
        /too many tickets: expected at most 2 of one caller that have not ended.*maxTicketsPerCaller/,
      ),
    );
    await create("other");
    for (let count = 0; count < 3; count++) {
      await create("operator");
    }
    await fleet.frontend.cancelTicket({ ticketId: ticket?.id ?? "" }, as("one"));
    await create("one");
  });

  it("free the memory of deleted tickets", async () => {
    await using fleet = await Fleet.open({
      authorize: byName,
      settings: { maxTicketsBytesPerCaller: 702, retainMs: 1_000 },
    });
    const create = (ticketId: string) => fleet.frontend.createTicket({ ticketId }, as("one"));
    await create("a");
    await fleet.frontend.cancelTicket({ ticketId: "a" }, as("one"));
    await expect(create("b")).rejects.toThrow(/maxTicketsBytesPerCaller/);
    await fleet.pass(2_000);
    await create("b");
  });

  it("include the tickets that a matchmaker finds in its store", async () => {
    const settings = { maxTicketsBytes: 702 };
    await using fleet = await Fleet.open({ settings });
    await fleet.frontend.createTicket({ ticketId: "a" });
    await using other = await Fleet.open({ store: fleet.store, settings });
    await expect(other.frontend.createTicket({ ticketId: "b" })).rejects.toThrow(/maxTicketsBytes/);
  });
});

describe("a cancel", () => {
  it("is reported once, and returns the cancelled ticket", async () => {
    await using fleet = await Fleet.open();
    const [id = ""] = await fleet.tickets(1);
    fleet.time.advance(10);
    const { ticket } = await fleet.frontend.cancelTicket({ ticketId: id });
    expect(ticket).toMatchObject({ id, state: TicketState.CANCELLED });
    const again = await fleet.frontend.cancelTicket({ ticketId: id });
    expect(again.ticket).toEqual(ticket);
    expect(eventsOf(fleet, "ticket-ended")).toEqual([
      { kind: "ticket-ended", ticketId: id, state: "cancelled", reason: undefined },
    ]);
  });

  it("of a ticket that has completed changes nothing", async () => {
    await using fleet = await Fleet.open({ profiles: [profile({ count: 1 })] });
    const server = await fleet.serve("a");
    const [id = ""] = await fleet.tickets(1);
    await fleet.settle();
    await fleet.join(id);
    await fleet.pass(1_000);
    server.worlds.get("gridworld-1")?.tickets.clear();
    await fleet.pass(1_000);
    const { ticket } = await fleet.frontend.cancelTicket({ ticketId: id });
    expect(ticket?.state).toBe(TicketState.COMPLETED);
  });

  it("of an unknown ticket, or of another caller's ticket, is refused", async () => {
    await using fleet = await Fleet.open({ authorize: byName });
    await fleet.frontend.createTicket({ ticketId: "mine" }, as("one"));
    for (const [id, name] of [
      ["other", "one"],
      ["mine", "other"],
    ] as const) {
      await expect(fleet.frontend.cancelTicket({ ticketId: id }, as(name))).rejects.toSatisfy(
        refused(Code.NotFound, new RegExp(`"${id}"`)),
      );
    }
    const { ticket } = await fleet.frontend.cancelTicket({ ticketId: "mine" }, as("operator"));
    expect(ticket?.state).toBe(TicketState.CANCELLED);
  });

  it("at another matchmaker removes the ticket from a match that was made in the meantime", async () => {
    await using fleet = await Fleet.open({ profiles: [profile({ backfill: true })] });
    await using other = await Fleet.open({ store: unnotifiedStore(fleet.store), profiles: [] });
    const release = fleet.servers.hold("create");
    await fleet.serve("a");
    const [first = "", second = "", third = ""] = await fleet.tickets(3);
    await fleet.matchmaker.tick();
    const { ticket } = await other.frontend.cancelTicket({ ticketId: first });
    expect(ticket?.state).toBe(TicketState.CANCELLED);
    release();
    await fleet.settle();
    expect(await fleet.states([second, third])).toEqual(["ASSIGNED", "ASSIGNED"]);
  });
});

it("a ticket that was created at another matchmaker can be read, watched and cancelled", async () => {
  await using fleet = await Fleet.open();
  await using other = await Fleet.open({ store: unnotifiedStore(fleet.store), profiles: [] });
  const [read = "", watched = "", cancelled = ""] = await fleet.tickets(3);
  expect((await other.ticket(read)).id).toBe(read);
  const stream = other.frontend.watchTicket({ ticketId: watched });
  const first = await stream[Symbol.asyncIterator]().next();
  expect(first.value?.ticket?.id).toBe(watched);
  await other.frontend.cancelTicket({ ticketId: cancelled });
  expect(await fleet.states([cancelled])).toEqual(["CANCELLED"]);
});

it("a watch ends with the last state of its ticket", async () => {
  await using fleet = await Fleet.open();
  const [id = ""] = await fleet.tickets(1);
  const states: (TicketState | undefined)[] = [];
  const watching = (async () => {
    for await (const { ticket } of fleet.frontend.watchTicket({ ticketId: id })) {
      states.push(ticket?.state);
    }
  })();
  await expect.poll(() => states.length).toBe(1);
  await fleet.frontend.cancelTicket({ ticketId: id });
  await watching;
  expect(states).toEqual([TicketState.WAITING, TicketState.CANCELLED]);
});

describe("a caller's rate", () => {
  it("is enforced with an error that gives the seconds until the next call", async () => {
    await using fleet = await Fleet.open({ authorize: byName, settings: { maxCallsPerSecond: 1 } });
    const call = () => fleet.frontend.createTicket({}, as("quick"));
    for (let count = 0; count < 4; count++) {
      await call();
    }
    const waitOf = async (): Promise<string | null> =>
      (await call().then(() => undefined, ConnectError.from))?.metadata.get("retry-after") ?? null;
    expect(await waitOf()).toBe("1");
    fleet.time.advance(999);
    expect(await waitOf()).toBe("1");
    fleet.time.advance(1);
    await call();
  });
});
