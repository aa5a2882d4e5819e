// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { MatchFunctionSchema, PoolSchema } from "@dm-env-rpc/protocol/matchmaker";
import { describe, expect, it } from "vitest";
import { profile } from "../../../testing/fleet.ts";
import type { MatchmakerEvent } from "../../model/events.ts";
import type { Kind, Match, Records, Ticket, World } from "../../model/model.ts";
import { profileRecord } from "../../profiles/profile.ts";
import { put, Replica, remove } from "../../replica/replica.ts";
import { memoryStore } from "../../store/memory-store.ts";
import type { Stored } from "../../store/store.ts";
import { MatchIndex } from "./match-index.ts";

const world: World = {
  id: "old",
  serverId: "server",
  address: "server.test:1",
  profile: "",
  type: "gridworld",
  seats: 2,
  name: "gridworld",
  state: "open",
  createdMs: 0,
  openedMs: 0,
  used: false,
  resetMs: 0,
  resetSequences: 0,
};
const match: Match = {
  id: "match",
  profile: "any",
  worldId: "old",
  serverId: "server",
  state: "live",
  teams: [],
  vacancies: [],
  createdMs: 0,
};
const joined: Ticket = {
  id: "ticket",
  createdMs: 0,
  profile: "",
  search: { doubles: {}, strings: {}, tags: [] },
  extensions: {},
  state: "joined",
  matchId: "match",
  attempts: 0,
};

function open() {
  const replica = new Replica(memoryStore());
  return { replica, matchIndex: new MatchIndex(replica, {}, () => {}) };
}

/** Returns a stored record. */
function stored<K extends Kind>(replica: Replica, kind: K, id: string): Stored<Records[K]> {
  const record = replica.get(kind, id);
  if (record === undefined) {
    throw new Error(`${kind} "${id}" was expected`);
  }
  return record;
}

/** Writes a record over its current version. */
async function write<K extends Kind>(
  replica: Replica,
  kind: K,
  id: string,
  value: Records[K],
): Promise<void> {
  await replica.commit([put(kind, id, replica.get(kind, id), value)]);
}

const waiting: Ticket = { ...joined, id: "w", state: "waiting", matchId: undefined };

describe("the indexes of tickets", () => {
  const red = profile({
    name: "red",
    pools: [create(PoolSchema, { name: "red", tagPresentFilters: [{ tag: "red" }] })],
  });
  const idsIn = (matchIndex: MatchIndex, name: string) =>
    [...(matchIndex.poolsOf(name)?.values() ?? [])].map((pool) => pool.map(({ id }) => id));

  it("contain records that were stored before the index was created", async () => {
    const replica = new Replica(memoryStore());
    await write(replica, "profile", "any", profileRecord(profile()));
    await write(replica, "world", "old", world);
    await write(replica, "match", "match", { ...match, vacancies: ["everyone"] });
    await write(replica, "ticket", "w", waiting);
    await write(replica, "ticket", "over", { ...joined, id: "over", state: "failed" });
    await write(replica, "report", "server", {
      serverId: "server",
      epoch: 1,
      sequence: 1,
      receivedMs: 0,
      worlds: [],
    });
    const matchIndex = new MatchIndex(replica, {}, () => {});
    expect([...matchIndex.profiles.keys()]).toEqual(["any"]);
    expect(idsIn(matchIndex, "any")).toEqual([["w"]]);
    expect([...matchIndex.vacant]).toEqual(["match"]);
    expect([...matchIndex.ended.keys()]).toEqual(["over"]);
    expect([...matchIndex.reported]).toEqual(["server"]);
    expect(matchIndex.worldNamed("server", "gridworld")).toBe("old");
    expect(matchIndex.loadOf("server")).toEqual({ worlds: 1, seats: 2 });
  });

  it("do not change after they are closed", async () => {
    const { replica, matchIndex } = open();
    matchIndex.close();
    await write(replica, "ticket", "w", waiting);
    expect(matchIndex.waiting.size).toBe(0);
  });

  it("keep a waiting ticket in the pools that accept it, until it stops waiting", async () => {
    const { replica, matchIndex } = open();
    await write(replica, "profile", "any", profileRecord(profile()));
    await write(replica, "profile", "red", profileRecord(red));
    expect(matchIndex.poolsOf("any")).toBeUndefined();
    expect(matchIndex.poolsOf("unknown")).toBeUndefined();
    const before = matchIndex.ticketRevision;
    await write(replica, "ticket", "w", waiting);
    expect(matchIndex.ticketRevision).toBe(before + 1);
    expect(idsIn(matchIndex, "any")).toEqual([["w"]]);
    expect(matchIndex.poolsOf("red")).toBeUndefined();
    expect(matchIndex.isInPools("any", "w")).toBe(true);
    expect(matchIndex.isInPools("red", "w")).toBe(false);
    expect(matchIndex.isInPools("unknown", "w")).toBe(false);
    expect(matchIndex.ordersWith("w").map(([name]) => name)).toEqual(["any"]);
    await write(replica, "ticket", "w", { ...waiting, state: "matched", matchId: "match" });
    expect(matchIndex.ticketRevision).toBe(before + 2);
    expect(matchIndex.waiting.size).toBe(0);
    expect(matchIndex.poolsOf("any")).toBeUndefined();
    expect(matchIndex.ordersWith("w")).toEqual([]);
    await write(replica, "ticket", "w", { ...waiting, state: "joined", matchId: "match" });
    expect(matchIndex.ticketRevision).toBe(before + 2);
  });

  it("add waiting tickets to a profile that is put later, and drop the pools of a deleted profile", async () => {
    const replica = new Replica(memoryStore());
    const events: MatchmakerEvent[] = [];
    const matchIndex = new MatchIndex(replica, {}, (event) => events.push(event));
    await write(replica, "ticket", "w", waiting);
    const before = matchIndex.ticketRevision;
    await write(replica, "profile", "any", profileRecord(profile()));
    expect(matchIndex.ticketRevision).toBeGreaterThan(before);
    expect(idsIn(matchIndex, "any")).toEqual([["w"]]);
    await replica.commit([remove("profile", "any", stored(replica, "profile", "any"))]);
    expect(matchIndex.poolsOf("any")).toBeUndefined();
    expect([...matchIndex.profiles.keys()]).toEqual([]);
    expect(events).toEqual([]);
  });

  it("put a ticket that names a profile only into the pools of that profile", async () => {
    const { replica, matchIndex } = open();
    await write(replica, "profile", "any", profileRecord(profile()));
    await write(replica, "profile", "other", profileRecord(profile({ name: "other" })));
    await write(replica, "ticket", "w", { ...waiting, profile: "other" });
    expect(matchIndex.poolsOf("any")).toBeUndefined();
    expect(idsIn(matchIndex, "other")).toEqual([["w"]]);
  });

  it("keep a ticket that is away in `away`, and out of the pools", async () => {
    const { replica, matchIndex } = open();
    await write(replica, "profile", "any", profileRecord(profile()));
    await write(replica, "ticket", "w", { ...waiting, away: true });
    expect([...matchIndex.away.keys()]).toEqual(["w"]);
    expect(matchIndex.waiting.size).toBe(0);
    expect(matchIndex.poolsOf("any")).toBeUndefined();
    await write(replica, "ticket", "w", waiting);
    expect(matchIndex.away.size).toBe(0);
    expect(idsIn(matchIndex, "any")).toEqual([["w"]]);
    await write(replica, "ticket", "w", { ...waiting, away: true });
    expect(matchIndex.poolsOf("any")).toBeUndefined();
    await write(replica, "ticket", "w", { ...joined, id: "w" });
    expect(matchIndex.away.size).toBe(0);
  });

  it("keep an ended ticket in `ended` until it is deleted", async () => {
    const { replica, matchIndex } = open();
    await write(replica, "ticket", "w", { ...waiting, state: "cancelled" });
    expect([...matchIndex.ended.keys()]).toEqual(["w"]);
    await replica.commit([remove("ticket", "w", stored(replica, "ticket", "w"))]);
    expect(matchIndex.ended.size).toBe(0);
  });

  it("list a match as abandoned only if a ticket with a seat in it was cancelled", async () => {
    const { replica, matchIndex } = open();
    const change = (from: Partial<Ticket>, to: Partial<Ticket>) => async (id: string) => {
      await write(replica, "ticket", id, { ...joined, id, ...from });
      await write(replica, "ticket", id, { ...joined, id, ...from, ...to });
    };
    await change({ state: "matched" }, { state: "cancelled" })("one");
    await change({ state: "joined" }, { state: "completed" })("two");
    await change({ state: "waiting", matchId: undefined }, { state: "cancelled" })("three");
    expect([...matchIndex.abandoned]).toEqual([]);
    await change({ state: "assigned" }, { state: "cancelled" })("four");
    expect([...matchIndex.abandoned]).toEqual(["match"]);
  });

  it("leave out a profile whose function the matchmaker does not have, and emit bad-proposal", async () => {
    const replica = new Replica(memoryStore());
    const events: MatchmakerEvent[] = [];
    const matchIndex = new MatchIndex(replica, {}, (event) => events.push(event));
    const matchFunction = create(MatchFunctionSchema, {
      function: { case: "custom", value: { name: "missing" } },
    });
    await write(replica, "profile", "any", profileRecord(profile({ matchFunction, seats: 2 })));
    expect(matchIndex.profiles.size).toBe(0);
    expect(events).toMatchObject([{ kind: "bad-proposal", profile: "any" }]);
    const [event] = events;
    if (event?.kind !== "bad-proposal") {
      throw new Error("a bad proposal was expected");
    }
    expect(event.error.message).toMatch(
      /profile ".*" cannot be used by this matchmaker: .*missing/,
    );
    expect(event.error.cause).toBeInstanceOf(Error);
  });
});

describe("the indexes of worlds and matches", () => {
  it("contain the load, the states and the spare worlds of a server", async () => {
    const { replica, matchIndex } = open();
    const creating = () =>
      [...matchIndex.creatingOn].map(([serverId, worlds]) => [serverId, [...worlds.keys()]]);
    const { name: _, ...unnamed } = world;
    await write(replica, "world", "one", { ...unnamed, id: "one", state: "creating" });
    await write(replica, "world", "two", { ...world, id: "two", seats: 3 });
    expect(matchIndex.loadOf("server")).toEqual({ worlds: 2, seats: 5 });
    expect(matchIndex.loadOf("other")).toEqual({ worlds: 0, seats: 0 });
    expect([...matchIndex.worldsOf.get("server").keys()]).toEqual(["one", "two"]);
    expect([...matchIndex.spares.get("").keys()]).toEqual(["one", "two"]);
    expect(creating()).toEqual([["server", ["one"]]]);
    await write(replica, "world", "two", { ...world, id: "two", seats: 3, matchId: "match" });
    expect([...matchIndex.spares.get("").keys()]).toEqual(["one"]);
    await write(replica, "world", "one", { ...world, id: "one", name: "first", state: "draining" });
    expect([...matchIndex.spares]).toEqual([]);
    expect(creating()).toEqual([]);
    expect(matchIndex.destroying.size).toBe(0);
    await write(replica, "world", "one", {
      ...world,
      id: "one",
      name: "first",
      state: "destroying",
    });
    expect([...matchIndex.destroying.keys()]).toEqual(["one"]);
    for (const id of ["one", "two"]) {
      await replica.commit([remove("world", id, stored(replica, "world", id))]);
    }
    expect(matchIndex.loadOf("server")).toEqual({ worlds: 0, seats: 0 });
    expect([...matchIndex.worldsOf]).toEqual([]);
    expect(matchIndex.destroying.size).toBe(0);
    expect(matchIndex.worldNamed("server", "gridworld")).toBeUndefined();
  });

  it("list the matches with open seats, and the servers with a new report", async () => {
    const { replica, matchIndex } = open();
    await write(replica, "match", "match", { ...match, vacancies: ["everyone"] });
    expect([...matchIndex.vacant]).toEqual(["match"]);
    await write(replica, "match", "match", match);
    expect(matchIndex.vacant.size).toBe(0);
    await write(replica, "match", "match", { ...match, vacancies: ["everyone"] });
    await replica.commit([remove("match", "match", stored(replica, "match", "match"))]);
    expect(matchIndex.vacant.size).toBe(0);
    const report = { serverId: "server", epoch: 1, sequence: 1, receivedMs: 0, worlds: [] };
    await write(replica, "report", "server", report);
    expect([...matchIndex.reported]).toEqual(["server"]);
    await replica.commit([remove("report", "server", stored(replica, "report", "server"))]);
    expect(matchIndex.reported.size).toBe(0);
  });
});

describe("a MatchIndex", () => {
  it("removes a deleted match from the abandoned matches", async () => {
    const { replica, matchIndex } = open();
    await replica.commit([put("match", "match", undefined, match)]);
    await replica.commit([put("ticket", "ticket", undefined, joined)]);
    const cancelled: Ticket = { ...joined, state: "cancelled" };
    await replica.commit([put("ticket", "ticket", replica.get("ticket", "ticket"), cancelled)]);
    expect([...matchIndex.abandoned]).toEqual(["match"]);
    const over = replica.get("match", "match");
    if (over === undefined) {
      throw new Error("the match was expected");
    }
    await replica.commit([remove("match", "match", over)]);
    expect([...matchIndex.abandoned]).toEqual([]);
  });

  it("still finds a world by its name after an older world of that name is removed", async () => {
    const { replica, matchIndex } = open();
    await replica.commit([put("world", "old", undefined, world)]);
    await replica.commit([put("world", "new", undefined, { ...world, id: "new" })]);
    const old = replica.get("world", "old");
    if (old === undefined) {
      throw new Error("the world was expected");
    }
    await replica.commit([remove("world", "old", old)]);
    expect(matchIndex.worldNamed("server", "gridworld")).toBe("new");
  });
});
