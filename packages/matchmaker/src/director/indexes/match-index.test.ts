// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { Match, Ticket, World } from "../../model.ts";
import { put, Replica, remove } from "../../replica.ts";
import { memoryStore } from "../../store/memory-store.ts";
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

describe("the matchIndex", () => {
  it("keeps nothing of a finished match once no ticket refers to it", async () => {
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

  it("knows a world by a name that another one had, when that one is forgotten later", async () => {
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
