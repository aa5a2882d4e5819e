// SPDX-License-Identifier: Apache-2.0
import { Code, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { FrontendService } from "@dm-env-rpc/protocol/matchmaker";
import { expect, it } from "vitest";
import { as, byName, refused } from "../../testing/callers.ts";
import { eventsOf, Fleet } from "../../testing/fleet.ts";
import { storeWithOutage } from "../../testing/wrapped-stores.ts";
import type { MatchmakerEvent } from "../model/events.ts";
import { serveMatchmaker } from "../serve-matchmaker.ts";
import { memoryStore } from "../store/memory-store.ts";
import type { AuthorizeCall } from "./authorize.ts";

/** The refused calls of a fleet: reason, method and caller. */
const refusalsOf = (fleet: Fleet) =>
  eventsOf(fleet, "call-refused").map(({ reason, method, who }) => [reason, method, who]);

it("a call that is refused for its caller, its role or a limit is counted and emits an event", async () => {
  await using fleet = await Fleet.open({
    authorize: byName,
    settings: { maxTicketsPerCaller: 1, maxPartySize: 4 },
  });
  const { frontend, admin, matchmaker } = fleet;
  await expect(frontend.createTicket({})).rejects.toThrow(/unauthenticated/);
  await expect(admin.listServers({}, as("mallory"))).rejects.toThrow(/permission_denied/);
  await frontend.createTicket({}, as("bob"));
  await expect(frontend.createTicket({}, as("bob"))).rejects.toThrow(/maxTicketsPerCaller/);
  await expect(frontend.createTicket({ priority: 1 }, as("ann"))).rejects.toThrow(/priority/);
  // These calls are mistakes of their caller.
  await expect(frontend.createTicket({ partySize: 5 }, as("ann"))).rejects.toThrow(/party_size/);
  await expect(frontend.getTicket({ ticketId: "none" }, as("ann"))).rejects.toThrow(/not_found/);
  expect(refusalsOf(fleet)).toEqual([
    ["UNAUTHENTICATED", "CreateTicket", "unknown"],
    ["PERMISSION_DENIED", "ListServers", "unknown"],
    ["maxTicketsPerCaller", "CreateTicket", "bob"],
    ["PERMISSION_DENIED", "CreateTicket", "ann"],
  ]);
  expect([...matchmaker.refusals]).toEqual([
    ["UNAUTHENTICATED", 1],
    ["PERMISSION_DENIED", 2],
    ["maxTicketsPerCaller", 1],
  ]);
});

it("the counts of a server contain the calls and the connections that its listener refuses", async () => {
  const events: MatchmakerEvent[] = [];
  await using served = await serveMatchmaker({
    // The first call stays open, even if this machine stands still.
    settings: { maxCallsPerCaller: 1, maxConnectionsPerAddress: 1, authorizeMs: 86_400_000 },
    authorize: () => new Promise(() => {}),
    onEvent: (event) => events.push(event),
  });
  const client = () => createClient(FrontendService, createGrpcTransport({ baseUrl: served.url }));
  const [one, two] = [client(), client()];
  const stop = new AbortController();
  const pending = one.createTicket({}, { signal: stop.signal }).catch(() => {});
  await expect
    .poll(() => one.createTicket({}).catch(String))
    .toMatch(/too many calls of agents.*maxCallsPerCaller/);
  await expect(two.createTicket({})).rejects.toThrow();
  stop.abort();
  await pending;
  expect(served.refusals.get("maxCallsPerCaller")).toBeGreaterThan(0);
  expect(served.refusals.get("maxConnectionsPerAddress")).toBeGreaterThan(0);
  expect(events).toContainEqual({
    kind: "call-refused",
    reason: "maxCallsPerCaller",
    method: "CreateTicket",
    who: expect.stringMatching(/^127\.0\.0\.1:/),
    address: expect.stringMatching(/^127\.0\.0\.1:/),
  });
});

it.each([
  ["throws", () => JSON.parse("{")],
  ["rejects", () => Promise.reject(new SyntaxError("the directory has no schema"))],
] as const)(
  "an authorize that %s refuses the call, and only the event has its error",
  async (_, fail) => {
    const authorize: AuthorizeCall = fail;
    await using fleet = await Fleet.open({ authorize });
    await expect(fleet.frontend.createTicket({})).rejects.toSatisfy(
      refused(Code.Unauthenticated, /^FrontendService: expected a caller with the role/),
    );
    expect(eventsOf(fleet, "authorize-failed")).toMatchObject([
      { address: "unknown", error: expect.any(SyntaxError) },
    ]);
  },
);

it("an authorize that takes longer than authorizeMs refuses the call with DEADLINE_EXCEEDED", async () => {
  let called = (): void => {};
  const asked = new Promise<void>((resolve) => {
    called = resolve;
  });
  const authorize: AuthorizeCall = () => {
    called();
    return new Promise(() => {});
  };
  await using fleet = await Fleet.open({ authorize, settings: { authorizeMs: 3_000 } });
  const call = fleet.frontend.createTicket({});
  const refusal = expect(call).rejects.toSatisfy(
    refused(Code.DeadlineExceeded, /^authorization did not finish within 3000 ms; try again later/),
  );
  await asked;
  fleet.time.advance(3_000);
  await refusal;
  expect(eventsOf(fleet, "authorize-failed")).toHaveLength(1);
  expect(refusalsOf(fleet)).toEqual([["authorizeMs", "CreateTicket", "unknown"]]);
});

/** An answer of an `authorize` that was written without types. */
const untyped = (text: string): ReturnType<AuthorizeCall> => JSON.parse(text);

it.each([
  ["null", untyped("null"), "null"],
  ["a promise of null", Promise.resolve(untyped("null")), "null"],
  ["a text", untyped('"agent"'), "'agent'"],
  ["an unknown role", untyped('["admin"]'), "[ 'admin' ]"],
  ["a caller without roles", untyped('{"identity":"bob"}'), "{ identity: 'bob' }"],
  [
    "a caller whose identity is not a text",
    untyped('{"roles":["agent"],"identity":null}'),
    "{ roles: [ 'agent' ], identity: null }",
  ],
])(
  "an authorize that returns %s refuses the call, and the event names the answer",
  async (_, answer, received) => {
    await using fleet = await Fleet.open({ authorize: () => answer });
    await expect(fleet.frontend.createTicket({})).rejects.toSatisfy(
      refused(Code.Unauthenticated, /^FrontendService: expected a caller with the role/),
    );
    expect(eventsOf(fleet, "authorize-failed").map(({ error }) => error.message)).toEqual([
      expect.stringContaining(
        `authorize: expected roles, { roles, identity, name } or undefined, received ${received}; `,
      ),
    ]);
  },
);

it("an authorize may return a promise of another library, whose time is limited too", async () => {
  const foreign = (then: PromiseLike<readonly ["agent"]>["then"]) =>
    Object.assign(Object.create(null), { then });
  let answer = foreign((resolve) => Promise.resolve(["agent"] as const).then(resolve));
  let isAsked = (): void => {};
  const asked = new Promise<void>((resolve) => {
    isAsked = resolve;
  });
  await using fleet = await Fleet.open({
    authorize: () => answer,
    settings: { authorizeMs: 3_000 },
  });
  await fleet.frontend.createTicket({ ticketSecret: "mine" });
  answer = foreign(() => {
    isAsked();
    return new Promise(() => {});
  });
  const refusal = expect(fleet.frontend.createTicket({})).rejects.toSatisfy(
    refused(Code.DeadlineExceeded, /^authorization did not finish within 3000 ms/),
  );
  await asked;
  fleet.time.advance(3_000);
  await refusal;
});

it("a caller does not learn the error of the store, which an event reports", async () => {
  const { store, outage } = storeWithOutage(memoryStore(), "commit");
  await using fleet = await Fleet.open({ store });
  outage.isOn = true;
  await expect(fleet.frontend.createTicket({})).rejects.toSatisfy(
    refused(Code.Unavailable, /^the matchmaker cannot reach its store; try again$/),
  );
  expect(eventsOf(fleet, "call-failed")).toMatchObject([
    { method: "CreateTicket", error: { message: "the store is away" } },
  ]);
});
