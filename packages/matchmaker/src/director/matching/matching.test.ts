// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import {
  MatchFunctionSchema,
  MatchState,
  Placement,
  WorldPolicySchema,
} from "@dm-env-rpc/protocol/matchmaker";
import { t } from "@dm-env-rpc/tensor-codec";
import { packSettings } from "@dm-env-rpc/tensor-codec/proto";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { callsOf, eventsOf, Fleet, profile } from "../../../testing/fleet.ts";
import { startMs } from "../../../testing/start-ms.ts";
import { outageError, wrappedStore } from "../../../testing/wrapped-stores.ts";
import { memoryStore } from "../../store/memory-store.ts";
import type { Change } from "../../store/store.ts";

/**
 * Opens a fleet that calls `onClaim` before each commit of matches. `claims` contains the number of matches of each
 * commit.
 */
async function watched(options: Parameters<typeof Fleet.open>[0] = {}) {
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
  const fleet = await Fleet.open({ time, store, ...options });
  return { fleet, claims, watch, [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose]() };
}

const large = { maxWorlds: 1_000, maxAgents: 10_000 };

describe("one tick", () => {
  it("lets only one of two profiles match the tickets that both propose", async () => {
    await using fleet = await Fleet.open({
      profiles: [profile({ name: "pairs" }), profile({ name: "trios", count: 3 })],
    });
    await fleet.serve("a");
    const ids = await fleet.tickets(3);
    await fleet.matchmaker.tick();
    expect(eventsOf(fleet, "matched")).toMatchObject([{ profile: "pairs", tickets: 2 }]);
    expect(eventsOf(fleet, "step-failed")).toEqual([]);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED", "WAITING"]);
  });

  it("makes only the matches that do not conflict with another commit", async () => {
    await using scene = await watched();
    const { fleet, claims, watch } = scene;
    await fleet.serve("a");
    const ids = await fleet.tickets(6);
    watch.onClaim = async () => {
      watch.onClaim = async () => {};
      await fleet.frontend.cancelTicket({ ticketId: ids[2] ?? "" });
    };
    await fleet.matchmaker.tick();
    expect(claims).toEqual([3, 2]);
    expect(eventsOf(fleet, "matched")).toHaveLength(2);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual([
      "ASSIGNED",
      "ASSIGNED",
      "CANCELLED",
      "WAITING",
      "ASSIGNED",
      "ASSIGNED",
    ]);
  });

  it("commits batches of at most fifty matches, without waiting for the answer to the previous batch", async () => {
    await using scene = await watched();
    const { fleet, claims, watch } = scene;
    await fleet.serve("a", large);
    await fleet.tickets(104);
    const order: string[] = [];
    watch.onClaim = async () => {
      order.push("asked");
      await setImmediate();
      order.push("answered");
    };
    await fleet.matchmaker.tick();
    expect(claims).toEqual([50, 2]);
    expect(order).toEqual(["asked", "asked", "answered", "answered"]);
    expect(eventsOf(fleet, "matched")).toHaveLength(52);
  });

  it("commits a batch again without the match whose ticket was cancelled in the meantime", async () => {
    await using scene = await watched();
    const { fleet, claims, watch } = scene;
    await fleet.serve("a", large);
    const ids = await fleet.tickets(104);
    watch.onClaim = async () => {
      if (claims.length === 2) {
        await fleet.frontend.cancelTicket({ ticketId: ids[100] ?? "" });
      }
    };
    await fleet.matchmaker.tick();
    expect(claims).toEqual([50, 2, 1]);
    expect(eventsOf(fleet, "matched")).toHaveLength(51);
  });

  it("makes no match of tickets that are cancelled, or of a profile that is deleted, while it commits earlier matches", async () => {
    await using scene = await watched({
      profiles: [profile(), profile({ name: "deleted" })],
    });
    const { fleet, claims, watch } = scene;
    await fleet.serve("a", large);
    await fleet.tickets(100, { profile: "any" });
    const [cancelled = "", kept = ""] = await fleet.tickets(2, { profile: "any" });
    const late = await fleet.tickets(2, { profile: "deleted" });
    watch.onClaim = async () => {
      // The other matches are planned after a pause.
      fleet.time.advance(5);
      await fleet.frontend.cancelTicket({ ticketId: cancelled });
      await fleet.admin.deleteProfile({ name: "deleted" });
    };
    await fleet.matchmaker.tick();
    expect(claims).toEqual([50]);
    expect(await fleet.states([cancelled, kept])).toEqual(["CANCELLED", "WAITING"]);
    expect(await fleet.states(late)).toEqual(["WAITING", "WAITING"]);
    expect(eventsOf(fleet, "step-failed")).toEqual([]);
  });

  it("counts each of its worlds once in the load of a server, also after the world has been committed", async () => {
    const placement = Placement.SPREAD_LOAD;
    await using scene = await watched({ profiles: [profile({ placement })] });
    const { fleet, claims, watch } = scene;
    const idle = await fleet.serve("idle", { maxWorlds: 100, maxAgents: 1_000 });
    const busy = await fleet.serve("busy", { maxWorlds: 100, maxAgents: 1_000 });
    idle.load = 0;
    busy.load = 0.5;
    await fleet.reportAll();
    await fleet.tickets(120);
    watch.onClaim = async () => fleet.time.advance(5);
    await fleet.matchmaker.tick();
    expect(claims).toEqual([50, 10]);
    // Each world counts as 0.01. So 50 worlds make both servers equally loaded, and then they take turns.
    const servers = eventsOf(fleet, "matched").map(({ serverId }) => serverId);
    expect(servers.filter((id) => id === "busy")).toHaveLength(5);
  });

  it("reports only one failure if all of its commits fail, and the next tick makes the matches", async () => {
    await using scene = await watched();
    const { fleet, claims, watch } = scene;
    await fleet.serve("a", large);
    await fleet.tickets(202);
    watch.onClaim = async () => {
      await setImmediate();
      throw outageError();
    };
    await fleet.matchmaker.tick();
    expect(claims).toEqual([50, 50, 1]);
    expect(eventsOf(fleet, "store-failed")).toHaveLength(1);
    expect(eventsOf(fleet, "matched")).toEqual([]);
    watch.onClaim = async () => {};
    await fleet.matchmaker.tick();
    expect(eventsOf(fleet, "matched")).toHaveLength(101);
  });

  it("plans no more matches once a commit has failed", async () => {
    await using scene = await watched();
    const { fleet, claims, watch } = scene;
    await fleet.serve("a", large);
    await fleet.tickets(202);
    watch.onClaim = () => {
      // The next batch is planned after a pause.
      fleet.time.advance(5);
      return Promise.reject(outageError());
    };
    await fleet.matchmaker.tick();
    expect(claims).toEqual([50]);
  });

  it("lets other calls run between the commits of many matches", async () => {
    await using scene = await watched();
    const { fleet, watch, claims } = scene;
    await fleet.serve("a", large);
    await fleet.tickets(202);
    let hasRun = false;
    const before: boolean[] = [];
    watch.onClaim = async () => {
      before.push(hasRun);
      void setImmediate().then(() => {
        hasRun = true;
      });
      fleet.time.advance(5);
    };
    await fleet.matchmaker.tick();
    expect(claims).toEqual([50, 50, 1]);
    expect(before).toEqual([false, true, true]);
  });

  it("makes at most maxMatchesPerTick matches, and leaves the rest to the next ticks", async () => {
    await using fleet = await Fleet.open({ settings: { maxMatchesPerTick: 2 } });
    await fleet.serve("a");
    await fleet.tickets(6);
    await fleet.matchmaker.tick();
    expect(eventsOf(fleet, "matched")).toHaveLength(2);
    await fleet.matchmaker.tick();
    expect(eventsOf(fleet, "matched")).toHaveLength(3);
  });

  it.each([
    ["without a latency limit", undefined],
    ["with a latency limit", { maxMs: 100 }],
  ])(
    "evaluates at most as many proposals of a profile %s as fit, and at most maxMatchesPerTick",
    async (_, latencyLimit) => {
      const evaluated: number[] = [];
      await using fleet = await Fleet.open({
        profiles: [profile({ latencyLimit, precreatedWorlds: 1 })],
        settings: { maxMatchesPerTick: 4 },
        evaluate: (proposals) => {
          evaluated.push(proposals.length);
          return [];
        },
      });
      await fleet.serve("a", { maxWorlds: 2, region: "eu" });
      await fleet.settle();
      // A region without room for a match.
      await fleet.serve("b", { maxAgents: 1, region: "us" });
      await fleet.tickets(20, { latenciesMs: { eu: 20, us: 20 } });
      await fleet.matchmaker.tick();
      // One match fits into the spare world, and one into a world to be created.
      expect(evaluated).toEqual([2]);
      await fleet.serve("c", { maxWorlds: 1, region: "eu" });
      await fleet.matchmaker.tick();
      await fleet.serve("d", { region: "eu" });
      await fleet.matchmaker.tick();
      expect(evaluated).toEqual([2, 3, 4]);
    },
  );

  it("makes at most maxMatchesPerTick matches of all profiles together", async () => {
    const profiles = ["one", "two"].map((name) => profile({ name }));
    await using fleet = await Fleet.open({ profiles, settings: { maxMatchesPerTick: 2 } });
    await fleet.serve("a");
    for (const { name } of profiles) {
      await fleet.tickets(4, { profile: name });
    }
    await fleet.matchmaker.tick();
    expect(eventsOf(fleet, "matched")).toHaveLength(2);
    await fleet.matchmaker.tick();
    expect(eventsOf(fleet, "matched")).toHaveLength(4);
  });
});

it("a running matchmaker makes all matches in consecutive ticks, without waiting for its interval", async () => {
  const settings = { maxMatchesPerTick: 1, minTickMs: 20, tickMs: 500 };
  await using fleet = await Fleet.open({ run: true, settings });
  await fleet.serve("a");
  const ids = await fleet.tickets(8);
  const beganMs = fleet.time.now();
  await expect
    .poll(async () => {
      fleet.time.advance(20);
      await setImmediate();
      return new Set(await fleet.states(ids));
    })
    .toEqual(new Set(["ASSIGNED"]));
  expect(fleet.time.now() - beganMs).toBeLessThan(500);
});

describe("a spare world", () => {
  const ahead = (rest: object = {}) => profile({ precreatedWorlds: 1, ...rest });

  it("is used by a match even if the server has no room for another world, and the tickets are assigned in the same tick", async () => {
    await using fleet = await Fleet.open({ profiles: [ahead()] });
    await fleet.serve("a", { maxWorlds: 1 });
    await fleet.settle();
    const ids = await fleet.tickets(2);
    fleet.time.advance(1_000);
    await fleet.matchmaker.tick();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    const { matchId } = await fleet.ticket(ids[0] ?? "");
    expect(eventsOf(fleet, "assigned")).toEqual([
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
    await using fleet = await Fleet.open({ profiles: [ahead()] });
    const server = await fleet.serve("a", { maxWorlds: 2 });
    const release = fleet.servers.hold("create");
    await fleet.matchmaker.tick();
    const ids = await fleet.tickets(2);
    await fleet.matchmaker.tick();
    expect(await fleet.states(ids)).toEqual(["MATCHED", "MATCHED"]);
    const { matches } = await fleet.admin.listMatches({});
    expect(matches.map(({ state }) => state)).toEqual([MatchState.PLACED]);
    release();
    await fleet.settle();
    expect(server.created).toBe(2);
  });

  it("is not used after the world type of its profile has changed", async () => {
    await using fleet = await Fleet.open({ profiles: [ahead({ seats: 2 })] });
    const server = await fleet.serve("a", { worldTypes: ["gridworld", "other"] });
    await fleet.settle();
    await fleet.admin.putProfile({ profile: ahead({ worldType: "other" }) });
    const ids = await fleet.tickets(2);
    await fleet.settle();
    const { assignment } = await fleet.ticket(ids[0] ?? "");
    expect(server.worlds.get(assignment?.worldName ?? "")?.type).toBe("other");
  });

  it("keeps the number of seats with which it was created", async () => {
    await using fleet = await Fleet.open({ profiles: [ahead({ seats: 4 })] });
    await fleet.serve("a", { maxWorlds: 1 });
    await fleet.settle();
    await fleet.admin.putProfile({ profile: ahead({ seats: 2 }) });
    await fleet.tickets(2);
    await fleet.settle();
    const { servers } = await fleet.admin.listServers({});
    expect(servers.map(({ placedWorlds, placedSeats }) => [placedWorlds, placedSeats])).toEqual([
      [1, 4],
    ]);
  });

  it("on a draining server is not used", async () => {
    await using fleet = await Fleet.open({ profiles: [ahead()] });
    await fleet.serve("a");
    await fleet.settle();
    await fleet.registry.drainServer({ serverId: "a" });
    const ids = await fleet.tickets(2);
    await fleet.matchmaker.tick();
    expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
  });

  it("on a suspect server is not used until the server has answered", async () => {
    await using fleet = await Fleet.open({ profiles: [ahead({ count: 1 })] });
    await fleet.serve("a");
    await fleet.settle();
    const [first = ""] = await fleet.tickets(1);
    await fleet.settle();
    const release = fleet.servers.hold("check");
    await fleet.frontend.cancelTicket({ ticketId: first });
    const [second = ""] = await fleet.tickets(1);
    await fleet.matchmaker.tick();
    await fleet.matchmaker.tick();
    expect(await fleet.states([second])).toEqual(["WAITING"]);
    release();
    await fleet.settle();
    expect(await fleet.states([second])).toEqual(["ASSIGNED"]);
  });

  it("that its server started with is used by only one of two profiles", async () => {
    await using fleet = await Fleet.open({
      profiles: [profile({ name: "one" }), profile({ name: "other" })],
    });
    const server = await fleet.serve("a");
    server.create("gridworld", true);
    await fleet.report(server);
    await fleet.settle();
    expect(eventsOf(fleet, "world-adopted")).toHaveLength(1);
    const ids = [
      ...(await fleet.tickets(2, { profile: "one" })),
      ...(await fleet.tickets(2, { profile: "other" })),
    ];
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(ids.map(() => "ASSIGNED"));
    expect(callsOf(fleet, "create")).toEqual(["create a"]);
    const tickets = await Promise.all(ids.map((id) => fleet.ticket(id)));
    expect(tickets.map(({ assignment }) => assignment?.worldName)).toEqual([
      "gridworld-1",
      "gridworld-1",
      "gridworld-2",
      "gridworld-2",
    ]);
  });

  it("is used by only one of several matches that a profile makes in one tick", async () => {
    await using fleet = await Fleet.open({ profiles: [ahead({ count: 1 })] });
    const server = await fleet.serve("a");
    await fleet.settle();
    const ids = await fleet.tickets(3);
    await fleet.settle();
    const tickets = await Promise.all(ids.map((id) => fleet.ticket(id)));
    const names = new Set(tickets.map(({ assignment }) => assignment?.worldName));
    expect(names.size).toBe(3);
    // One world is the spare world, two are created for the other matches, and one is the next spare.
    expect(server.created).toBe(4);
    expect(eventsOf(fleet, "step-failed")).toEqual([]);
  });

  it("is not used for a match if one of its tickets is cancelled while tokens are signed", async () => {
    await using fleet = await Fleet.open({ profiles: [ahead()] });
    await fleet.serve("a");
    await fleet.settle();
    const ids = await fleet.tickets(2);
    const tick = fleet.matchmaker.tick();
    await fleet.frontend.cancelTicket({ ticketId: ids[0] ?? "" });
    await tick;
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["CANCELLED", "WAITING"]);
    expect(eventsOf(fleet, "step-failed")).toEqual([]);
  });

  it.each([
    ["is used by a profile without settings", {}, 0],
    [
      "is not used by a profile with settings",
      { worldSettings: packSettings({ start: 1 }, { start: t.int32() }) },
      1,
    ],
  ])("that a server started with %s", async (_, settings, creates) => {
    await using fleet = await Fleet.open({ profiles: [profile(settings)] });
    const server = await fleet.serve("a");
    server.create("gridworld", true);
    await fleet.report(server);
    await fleet.settle();
    const ids = await fleet.tickets(2);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(callsOf(fleet, "create")).toHaveLength(creates);
  });

  it("of a profile with settings is used by the matches of that profile", async () => {
    const worldSettings = packSettings({ start: 1 }, { start: t.int32() });
    const worldPolicy = create(WorldPolicySchema, { keepWhenEmpty: true });
    await using fleet = await Fleet.open({ profiles: [ahead({ worldSettings, worldPolicy })] });
    await fleet.serve("a", { maxWorlds: 1 });
    await fleet.settle();
    const ids = await fleet.tickets(2);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(callsOf(fleet, "create")).toEqual(["create a"]);
  });
});

describe("a profile with a latency limit", () => {
  const near = { latencyLimit: { maxMs: 100 } };
  const to = (region: string) => ({ latenciesMs: { [region]: 20 } });

  it("matches tickets only with tickets that accept the same region", async () => {
    await using fleet = await Fleet.open({ profiles: [profile(near)] });
    await fleet.serve("a", { region: "eu" });
    await fleet.serve("b", { region: "us" });
    const ids: string[] = [];
    for (const region of ["eu", "us", "eu", "us"]) {
      ids.push(...(await fleet.tickets(1, to(region))));
    }
    await fleet.settle();
    const tickets = await Promise.all(ids.map((id) => fleet.ticket(id)));
    expect(tickets.map(({ assignment }) => assignment?.address)).toEqual([
      "a.test:1",
      "b.test:1",
      "a.test:1",
      "b.test:1",
    ]);
  });

  it("makes at most maxMatchesPerTick matches in a tick", async () => {
    await using fleet = await Fleet.open({
      profiles: [profile(near)],
      settings: { maxMatchesPerTick: 1 },
    });
    await fleet.serve("a", { region: "eu" });
    await fleet.serve("b", { region: "eu" });
    await fleet.tickets(6, to("eu"));
    await fleet.matchmaker.tick();
    expect(eventsOf(fleet, "matched")).toHaveLength(1);
  });

  it("uses a spare world only if all tickets accept its region", async () => {
    await using fleet = await Fleet.open({
      profiles: [profile({ ...near, precreatedWorlds: 1 })],
    });
    await fleet.serve("a", { region: "eu", maxWorlds: 1 });
    await fleet.settle();
    const far = await fleet.tickets(2, to("us"));
    await fleet.settle();
    expect(await fleet.states(far)).toEqual(["WAITING", "WAITING"]);
    const close = await fleet.tickets(2, to("eu"));
    await fleet.settle();
    expect(await fleet.states(close)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(callsOf(fleet, "create")).toEqual(["create a"]);
  });

  it("does not use a spare world for a match that its function made of tickets for different regions", async () => {
    const matchFunction = create(MatchFunctionSchema, {
      function: { case: "custom", value: { name: "mixed" } },
    });
    await using fleet = await Fleet.open({
      profiles: [profile({ ...near, matchFunction, seats: 2, precreatedWorlds: 1 })],
      functions: { mixed: ({ pools }) => [{ teams: { all: pools.get("all") ?? [] } }] },
    });
    await fleet.serve("a", { region: "eu" });
    await fleet.settle();
    const ids = [...(await fleet.tickets(1, to("eu"))), ...(await fleet.tickets(1, to("us")))];
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
    expect(eventsOf(fleet, "step-failed")).toEqual([]);
  });

  it('takes the region "" in the latencies of a ticket for the servers without a region', async () => {
    await using fleet = await Fleet.open({
      profiles: [profile({ ...near, precreatedWorlds: 1 })],
    });
    await fleet.serve("a", { maxWorlds: 1 });
    await fleet.settle();
    const ids = await fleet.tickets(2, to(""));
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });
});
