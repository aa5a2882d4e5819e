// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  MatchFunctionSchema,
  MatchProfileSchema,
  PoolSchema,
} from "@dm-env-rpc/protocol/matchmaker";
import { defineWorld, serve, withDefault } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { Fleet, profile } from "../testing/fleet.ts";
import { joinMatch, matchmakerClient } from "./client/index.ts";
import type { CustomMatchFunction } from "./functions/profile-function.ts";
import { serveRegistered } from "./registration/index.ts";
import { serveMatchmaker } from "./serve-matchmaker.ts";

const pool = (tag: string) => create(PoolSchema, { name: tag, tagPresentFilters: [{ tag }] });

/** Matches two seekers from one pool with a hider from another. */
const hideAndSeek = create(MatchProfileSchema, {
  name: "hide-and-seek",
  pools: [pool("seeker"), pool("hider")],
  matchFunction: create(MatchFunctionSchema, {
    function: {
      case: "teams",
      value: {
        teams: [
          { name: "reds", pool: "seeker", size: 2, role: "seek" },
          { name: "blues", pool: "hider", size: 1, role: "hide" },
        ],
      },
    },
  }),
  worldType: "park",
  data: { level: 3, map: "night", lamps: [1, 2] },
});

/** A world that records how its agents joined. */
function park() {
  const joined: unknown[] = [];
  const world = defineWorld({
    name: "park",
    joinSettings: {
      team: t.string(),
      role: t.string(),
      match_id: t.string(),
      level: t.int32(),
      lamps: t.float64([-1]),
      nickname: withDefault(t.string(), "nobody"),
    },
    actions: { wait: t.bool() },
    observations: { agents: t.int32() },
    create: () => ({
      join(_agent, settings) {
        joined.push({ ...settings, lamps: [...settings.lamps.data] });
      },
      step() {},
      observe: { agents: () => joined.length },
    }),
  });
  return { joined, world };
}

it("the team, role, id and data of a match reach its world and agents, and override join settings that an agent sends", async () => {
  const { joined, world } = park();
  await using served = await serveMatchmaker({ profiles: [hideAndSeek] });
  await using _registered = await serveRegistered((hooks) => serve({ worlds: [world], ...hooks }), {
    matchmakers: served.url,
    maxWorlds: 1,
    maxAgents: 3,
    worldTypes: ["park"],
  });
  const client = matchmakerClient(served.url, { timeoutMs: 60_000 });
  const [one, two, three] = await Promise.all(
    ["seeker", "seeker", "hider"].map((tag) => client.findMatch({ tags: [tag] })),
  );
  const data = { level: 3, map: "night", lamps: [1, 2] };
  expect([one, two]).toMatchObject([
    { team: "reds", role: "seek", data },
    { team: "reds", role: "seek", data },
  ]);
  expect(three).toMatchObject({ team: "blues", role: "hide", data });
  if (one === undefined || three === undefined) {
    throw new Error("expected three assignments");
  }
  const forged = { team: "blues", role: "judge", level: 99, nickname: "ann", lamps: [0] };
  await using _one = await joinMatch(one, { settings: forged });
  await using _three = await joinMatch(three);
  const { matchId } = await client.get(one.ticketId);
  expect(joined).toEqual([
    { team: "reds", role: "seek", match_id: matchId, level: 3, lamps: [1, 2], nickname: "ann" },
    { team: "blues", role: "hide", match_id: matchId, level: 3, lamps: [1, 2], nickname: "nobody" },
  ]);
});

describe("the data of a match", () => {
  it("contains the match function's data, which overrides the profile's data", async () => {
    const author: CustomMatchFunction = ({ pools }) => [
      { teams: { duo: pools.get("all")?.slice(0, 2) ?? [] }, data: { map: "day", round: 1 } },
    ];
    const matchFunction = create(MatchFunctionSchema, {
      function: { case: "custom", value: { name: "author" } },
    });
    await using fleet = await Fleet.open({
      profiles: [profile({ matchFunction, seats: 2, data: { map: "night", level: 3 } })],
      functions: { author },
    });
    await fleet.serve("a");
    const ids = await fleet.tickets(2);
    await fleet.settle();
    const { assignment } = await fleet.ticket(ids[0] ?? "");
    expect(assignment).toMatchObject({
      team: "duo",
      role: "",
      data: { map: "day", round: 1, level: 3 },
    });
  });

  it("reaches agents that fill open seats, with the team of the seat", async () => {
    await using fleet = await Fleet.open({
      profiles: [{ ...hideAndSeek, worldType: "gridworld", backfill: true }],
    });
    await fleet.serve("a");
    const seekers = await fleet.tickets(2, { searchFields: { tags: ["seeker"] } });
    const hiders = await fleet.tickets(1, { searchFields: { tags: ["hider"] } });
    await fleet.settle();
    await fleet.joinAll([...seekers, ...hiders]);
    await fleet.pass(1_000);
    const world = [...(fleet.servers.all.get("a.test:1")?.worlds.values() ?? [])][0];
    world?.tickets.delete(hiders[0] ?? "");
    await fleet.pass(1_000);
    const [late = ""] = await fleet.tickets(1, { searchFields: { tags: ["hider"] } });
    await fleet.settle();
    const { assignment } = await fleet.ticket(late);
    expect(assignment).toMatchObject({ team: "blues", role: "hide", data: { map: "night" } });
  });

  it.each([
    [{ where: { x: 1 } }, /data "where": expected a string, .*, received \{"x":1\}/],
    [{ level: null }, /data "level": expected a string, .*, received null/],
    [{ team: "red" }, /data: expected a name that is neither empty nor one of .*, received "team"/],
    [{ map: "x".repeat(1_024) }, /data: expected at most 1024 bytes as JSON, received 1034 bytes/],
  ])("cannot be %j", async (data, message) => {
    await using fleet = await Fleet.open();
    await expect(fleet.admin.putProfile({ profile: profile({ data }) })).rejects.toThrow(message);
  });
});
