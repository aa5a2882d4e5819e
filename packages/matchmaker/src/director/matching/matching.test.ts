// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { MatchState, WorldPolicySchema } from "@dm-env-rpc/protocol/matchmaker";
import { t } from "@dm-env-rpc/tensor-codec";
import { packSettings } from "@dm-env-rpc/tensor-codec/proto";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { callsOf, eventsOf, House, profile } from "../../../testing/house.ts";
import { startMs } from "../../../testing/start-ms.ts";
import { wrappedStore } from "../../../testing/wrapped-stores.ts";
import { memoryStore } from "../../store/memory-store.ts";
import type { Change } from "../../store/store.ts";

/** Opens a house that calls `onClaim` before each commit of matches; `claims` has the number of matches of each commit. */
async function watched(options: Parameters<typeof House.open>[0] = {}) {
  const time = manualTime(startMs);
  const claims: number[] = [];
  const watch: { onClaim(): Promise<void> } = { onClaim: async () => {} };
  const isMatch = ({ kind, version }: Change): boolean => kind === "match" && version === 0;
  const store = wrappedStore(memoryStore({ time }), async (run, { name, args }) => {
    const matches = name === "commit" ? args[0].filter(isMatch).length : 0;
    if (matches > 0) {
      claims.push(matches);
      await watch.onClaim();
    }
    return await run();
  });
  const house = await House.open({ time, store, ...options });
  return { house, claims, watch, [Symbol.asyncDispose]: () => house[Symbol.asyncDispose]() };
}

const large = { maxWorlds: 1_000, maxAgents: 10_000 };

describe("one tick", () => {
  it("lets only one of two profiles match the tickets that both propose", async () => {
    await using house = await House.open({
      profiles: [profile({ name: "pairs" }), profile({ name: "trios", count: 3 })],
    });
    await house.serve("a");
    const ids = await house.tickets(3);
    await house.matchmaker.tick();
    expect(eventsOf(house, "matched")).toMatchObject([{ profile: "pairs", tickets: 2 }]);
    expect(eventsOf(house, "step-failed")).toEqual([]);
    await house.settle();
    expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED", "WAITING"]);
  });

  it("makes only the matches that do not conflict with another commit", async () => {
    await using scene = await watched();
    const { house, claims, watch } = scene;
    await house.serve("a");
    const ids = await house.tickets(6);
    watch.onClaim = async () => {
      watch.onClaim = async () => {};
      await house.frontend.cancelTicket({ ticketId: ids[2] ?? "" });
    };
    await house.matchmaker.tick();
    expect(claims).toEqual([3, 2]);
    expect(eventsOf(house, "matched")).toHaveLength(2);
    await house.settle();
    expect(await house.states(ids)).toEqual([
      "ASSIGNED",
      "ASSIGNED",
      "CANCELLED",
      "WAITING",
      "ASSIGNED",
      "ASSIGNED",
    ]);
  });

  it("commits at most fifty matches at a time, without those whose tickets were cancelled in the meantime", async () => {
    await using scene = await watched();
    const { house, claims, watch } = scene;
    await house.serve("a", large);
    const ids = await house.tickets(104);
    watch.onClaim = async () => {
      watch.onClaim = async () => {};
      await house.frontend.cancelTicket({ ticketId: ids[100] ?? "" });
    };
    await house.matchmaker.tick();
    expect(claims).toEqual([50, 1]);
    expect(eventsOf(house, "matched")).toHaveLength(51);
  });

  it("lets other calls run between the commits of many matches", async () => {
    await using scene = await watched();
    const { house, watch, claims } = scene;
    await house.serve("a", large);
    await house.tickets(202);
    let hasRun = false;
    const before: boolean[] = [];
    watch.onClaim = async () => {
      before.push(hasRun);
      void setImmediate().then(() => {
        hasRun = true;
      });
      house.time.advance(5);
    };
    await house.matchmaker.tick();
    expect(claims).toEqual([50, 50, 1]);
    expect(before).toEqual([false, true, true]);
  });

  it("makes at most maxMatchesPerTick matches, and leaves the rest to the next ticks", async () => {
    await using house = await House.open({ settings: { maxMatchesPerTick: 2 } });
    await house.serve("a");
    await house.tickets(6);
    await house.matchmaker.tick();
    expect(eventsOf(house, "matched")).toHaveLength(2);
    await house.matchmaker.tick();
    expect(eventsOf(house, "matched")).toHaveLength(3);
  });

  it("makes at most maxMatchesPerTick matches of all profiles together", async () => {
    const profiles = ["one", "two"].map((name) => profile({ name }));
    await using house = await House.open({ profiles, settings: { maxMatchesPerTick: 2 } });
    await house.serve("a");
    for (const { name } of profiles) {
      await house.tickets(4, { profile: name });
    }
    await house.matchmaker.tick();
    expect(eventsOf(house, "matched")).toHaveLength(2);
    await house.matchmaker.tick();
    expect(eventsOf(house, "matched")).toHaveLength(4);
  });
});

it("a running matchmaker makes all matches in consecutive ticks, without waiting for its interval", async () => {
  const settings = { maxMatchesPerTick: 1, minTickMs: 20, tickMs: 500 };
  await using house = await House.open({ run: true, settings });
  await house.serve("a");
  const ids = await house.tickets(8);
  const beganMs = house.time.now();
  await expect
    .poll(async () => {
      house.time.advance(20);
      await setImmediate();
      return new Set(await house.states(ids));
    })
    .toEqual(new Set(["ASSIGNED"]));
  expect(house.time.now() - beganMs).toBeLessThan(500);
});

describe("a spare world", () => {
  const ahead = (rest: object = {}) => profile({ precreatedWorlds: 1, ...rest });

  it("is used by a match even if the server has no room for another world, and the tickets are assigned in the same tick", async () => {
    await using house = await House.open({ profiles: [ahead()] });
    await house.serve("a", { maxWorlds: 1 });
    await house.settle();
    const ids = await house.tickets(2);
    house.time.advance(1_000);
    await house.matchmaker.tick();
    expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    const { matchId } = await house.ticket(ids[0] ?? "");
    expect(eventsOf(house, "assigned")).toEqual([
      {
        kind: "assigned",
        matchId,
        profile: "any",
        serverId: "a",
        worldName: "gridworld-1",
        tickets: 2,
        waitedMs: [1_001, 1_000],
      },
    ]);
  });

  it("is not used while it is being created", async () => {
    await using house = await House.open({ profiles: [ahead()] });
    const server = await house.serve("a", { maxWorlds: 2 });
    const release = house.servers.hold("create");
    await house.matchmaker.tick();
    const ids = await house.tickets(2);
    await house.matchmaker.tick();
    expect(await house.states(ids)).toEqual(["MATCHED", "MATCHED"]);
    const { matches } = await house.admin.listMatches({});
    expect(matches.map(({ state }) => state)).toEqual([MatchState.PLACED]);
    release();
    await house.settle();
    expect(server.created).toBe(2);
  });

  it("is not used after the world type of its profile has changed", async () => {
    await using house = await House.open({ profiles: [ahead({ seats: 2 })] });
    const server = await house.serve("a", { worldTypes: ["gridworld", "other"] });
    await house.settle();
    await house.admin.putProfile({ profile: ahead({ worldType: "other" }) });
    const ids = await house.tickets(2);
    await house.settle();
    const { assignment } = await house.ticket(ids[0] ?? "");
    expect(server.worlds.get(assignment?.worldName ?? "")?.type).toBe("other");
  });

  it("keeps the number of seats with which it was created", async () => {
    await using house = await House.open({ profiles: [ahead({ seats: 4 })] });
    await house.serve("a", { maxWorlds: 1 });
    await house.settle();
    await house.admin.putProfile({ profile: ahead({ seats: 2 }) });
    await house.tickets(2);
    await house.settle();
    const { servers } = await house.admin.listServers({});
    expect(servers.map(({ placedWorlds, placedSeats }) => [placedWorlds, placedSeats])).toEqual([
      [1, 4],
    ]);
  });

  it("on a draining server is not used", async () => {
    await using house = await House.open({ profiles: [ahead()] });
    await house.serve("a");
    await house.settle();
    await house.registry.drainServer({ serverId: "a" });
    const ids = await house.tickets(2);
    await house.matchmaker.tick();
    expect(await house.states(ids)).toEqual(["WAITING", "WAITING"]);
  });

  it("on a suspect server is not used until the server has answered", async () => {
    await using house = await House.open({ profiles: [ahead({ count: 1 })] });
    await house.serve("a");
    await house.settle();
    const [first = ""] = await house.tickets(1);
    await house.settle();
    const release = house.servers.hold("check");
    await house.frontend.cancelTicket({ ticketId: first });
    const [second = ""] = await house.tickets(1);
    await house.matchmaker.tick();
    await house.matchmaker.tick();
    expect(await house.states([second])).toEqual(["WAITING"]);
    release();
    await house.settle();
    expect(await house.states([second])).toEqual(["ASSIGNED"]);
  });

  it("without a profile is used by only one of two profiles", async () => {
    await using house = await House.open({
      profiles: [profile({ name: "one" }), profile({ name: "other" })],
    });
    const server = await house.serve("a");
    server.create("gridworld", true);
    await house.report(server);
    await house.settle();
    expect(eventsOf(house, "world-adopted")).toHaveLength(1);
    const ids = [
      ...(await house.tickets(2, { profile: "one" })),
      ...(await house.tickets(2, { profile: "other" })),
    ];
    await house.settle();
    expect(await house.states(ids)).toEqual(ids.map(() => "ASSIGNED"));
    expect(callsOf(house, "create")).toEqual(["create a"]);
    const tickets = await Promise.all(ids.map((id) => house.ticket(id)));
    expect(tickets.map(({ assignment }) => assignment?.worldName)).toEqual([
      "gridworld-1",
      "gridworld-1",
      "gridworld-2",
      "gridworld-2",
    ]);
  });

  it("is used by only one of several matches that a profile makes in one tick", async () => {
    await using house = await House.open({ profiles: [ahead({ count: 1 })] });
    const server = await house.serve("a");
    await house.settle();
    const ids = await house.tickets(3);
    await house.settle();
    const tickets = await Promise.all(ids.map((id) => house.ticket(id)));
    const names = new Set(tickets.map(({ assignment }) => assignment?.worldName));
    expect(names.size).toBe(3);
    // One world is the spare world, two are created for the other matches, and one is the next spare.
    expect(server.created).toBe(4);
    expect(eventsOf(house, "step-failed")).toEqual([]);
  });

  it("is not used for a match if one of its tickets is cancelled while tokens are signed", async () => {
    await using house = await House.open({ profiles: [ahead()] });
    await house.serve("a");
    await house.settle();
    const ids = await house.tickets(2);
    const tick = house.matchmaker.tick();
    await house.frontend.cancelTicket({ ticketId: ids[0] ?? "" });
    await tick;
    await house.settle();
    expect(await house.states(ids)).toEqual(["CANCELLED", "WAITING"]);
    expect(eventsOf(house, "step-failed")).toEqual([]);
  });

  it.each([
    ["is used by a profile without settings", {}, 0],
    [
      "is not used by a profile with settings",
      { worldSettings: packSettings({ start: 1 }, { start: t.int32() }) },
      1,
    ],
  ])("that a server started with %s", async (_, settings, creates) => {
    await using house = await House.open({ profiles: [profile(settings)] });
    const server = await house.serve("a");
    server.create("gridworld", true);
    await house.report(server);
    await house.settle();
    const ids = await house.tickets(2);
    await house.settle();
    expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(callsOf(house, "create")).toHaveLength(creates);
  });

  it("of a profile with settings is used by the matches of that profile", async () => {
    const worldSettings = packSettings({ start: 1 }, { start: t.int32() });
    const worldPolicy = create(WorldPolicySchema, { keepWhenEmpty: true });
    await using house = await House.open({ profiles: [ahead({ worldSettings, worldPolicy })] });
    await house.serve("a", { maxWorlds: 1 });
    await house.settle();
    const ids = await house.tickets(2);
    await house.settle();
    expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(callsOf(house, "create")).toEqual(["create a"]);
  });
});

describe("a profile with a latency limit", () => {
  const near = { latencyLimit: { maxMs: 100 } };
  const to = (region: string) => ({ latenciesMs: { [region]: 20 } });

  it("matches tickets only with tickets that accept the same region", async () => {
    await using house = await House.open({ profiles: [profile(near)] });
    await house.serve("a", { region: "eu" });
    await house.serve("b", { region: "us" });
    const ids: string[] = [];
    for (const region of ["eu", "us", "eu", "us"]) {
      ids.push(...(await house.tickets(1, to(region))));
    }
    await house.settle();
    const tickets = await Promise.all(ids.map((id) => house.ticket(id)));
    expect(tickets.map(({ assignment }) => assignment?.address)).toEqual([
      "a.test:1",
      "b.test:1",
      "a.test:1",
      "b.test:1",
    ]);
  });

  it("makes at most maxMatchesPerTick matches in a tick", async () => {
    await using house = await House.open({
      profiles: [profile(near)],
      settings: { maxMatchesPerTick: 1 },
    });
    await house.serve("a", { region: "eu" });
    await house.serve("b", { region: "eu" });
    await house.tickets(6, to("eu"));
    await house.matchmaker.tick();
    expect(eventsOf(house, "matched")).toHaveLength(1);
  });

  it("uses a spare world only if all tickets accept its region", async () => {
    await using house = await House.open({
      profiles: [profile({ ...near, precreatedWorlds: 1 })],
    });
    await house.serve("a", { region: "eu", maxWorlds: 1 });
    await house.settle();
    const far = await house.tickets(2, to("us"));
    await house.settle();
    expect(await house.states(far)).toEqual(["WAITING", "WAITING"]);
    const close = await house.tickets(2, to("eu"));
    await house.settle();
    expect(await house.states(close)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(callsOf(house, "create")).toEqual(["create a"]);
  });

  it('matches tickets with a latency to "" on a server without a region', async () => {
    await using house = await House.open({
      profiles: [profile({ ...near, precreatedWorlds: 1 })],
    });
    await house.serve("a", { maxWorlds: 1 });
    await house.settle();
    const ids = await house.tickets(2, to(""));
    await house.settle();
    expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });
});
