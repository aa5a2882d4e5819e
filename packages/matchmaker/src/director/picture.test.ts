// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { Match, Ticket, World } from "../model.ts";
import { memoryStore } from "../store/memory-store.ts";
import { put, remove, View } from "../view.ts";
import { Picture } from "./picture.ts";

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
  openedAt: 0,
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
  const view = new View(memoryStore());
  return { view, picture: new Picture(view, {}, () => {}) };
}

describe("the picture", () => {
  it("keeps nothing of a match that is over, where nobody asks why agents left it", async () => {
    const { view, picture } = open();
    await view.commit([put("match", "match", undefined, match)]);
    await view.commit([put("ticket", "ticket", undefined, joined)]);
    const cancelled: Ticket = { ...joined, state: "cancelled" };
    await view.commit([put("ticket", "ticket", view.get("ticket", "ticket"), cancelled)]);
    expect([...picture.abandoned]).toEqual(["match"]);
    const over = view.get("match", "match");
    if (over === undefined) throw new Error("the match was expected");
    await view.commit([remove("match", "match", over)]);
    expect([...picture.abandoned]).toEqual([]);
  });

  it("knows a world by a name that another one had, when that one is forgotten later", async () => {
    const { view, picture } = open();
    await view.commit([put("world", "old", undefined, world)]);
    await view.commit([put("world", "new", undefined, { ...world, id: "new" })]);
    const old = view.get("world", "old");
    if (old === undefined) throw new Error("the world was expected");
    await view.commit([remove("world", "old", old)]);
    expect(picture.worldNamed("server", "gridworld")).toBe("new");
  });
});
