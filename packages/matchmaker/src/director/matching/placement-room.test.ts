// SPDX-License-Identifier: Apache-2.0
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { startMs } from "../../../testing/start-ms.ts";
import type { Kind, Records, ReportedWorld, ServerRecord, World } from "../../model/model.ts";
import { put, Replica, remove } from "../../replica/replica.ts";
import { memoryStore } from "../../store/memory-store.ts";
import { MatchIndex } from "../indexes/match-index.ts";
import { type Placed, Placement } from "./placement.ts";

/** A profile whose worlds have two seats, with the properties of `more` instead of the defaults. */
const pairs = (more: Partial<Placed> = {}): Placed => ({
  worldType: "gridworld",
  seats: 2,
  placement: "packed",
  serverLabels: {},
  ...more,
});

/** Opens an empty store, on which worlds are placed. */
function open() {
  const time = manualTime(startMs);
  const replica = new Replica(memoryStore({ time }));
  const matchIndex = new MatchIndex(replica, {}, () => {});
  const write = async <K extends Kind>(kind: K, id: string, value: Records[K]): Promise<void> => {
    await replica.commit([put(kind, id, replica.get(kind, id), value)]);
  };
  return {
    time,
    serve: (id: string, more: Partial<ServerRecord> = {}) =>
      write("server", id, {
        id,
        address: `${id}.test:1`,
        epoch: 1,
        maxWorlds: 10,
        maxAgents: 40,
        worldTypes: ["gridworld"],
        joinTokens: true,
        state: "serving",
        ...more,
      } as ServerRecord),
    addWorld: (id: string, serverId: string, more: Partial<World> = {}) =>
      write("world", id, {
        id,
        serverId,
        address: `${serverId}.test:1`,
        profile: "any",
        type: "gridworld",
        seats: 2,
        name: id,
        state: "open",
        matchId: "match",
        createdMs: 0,
        openedMs: 0,
        used: false,
        resetMs: 0,
        resetSequences: 0,
        ...more,
      }),
    endWorld: async (id: string): Promise<void> => {
      const world = replica.get("world", id);
      await replica.commit(world === undefined ? [] : [remove("world", id, world)]);
    },
    report: (
      serverId: string,
      load: number | undefined,
      worlds: readonly (Pick<ReportedWorld, "name"> & Partial<ReportedWorld>)[] = [],
    ) =>
      write("report", serverId, {
        serverId,
        epoch: 1,
        sequence: 1,
        receivedMs: startMs,
        worlds: worlds.map((world) => ({
          type: "gridworld",
          agents: 0,
          sequences: 0,
          tickets: [],
          left: [],
          joins: 0,
          premade: false,
          ...world,
        })),
        load,
      }),
    /** Begins a tick in which every server except `unusable` may get worlds. */
    tick: (unusable = "") =>
      new Placement(replica, matchIndex, (serverId, worldType) => {
        expect(worldType).toBe("gridworld");
        return serverId !== unusable;
      }),
  };
}

/** Takes room for worlds, and returns the ids of their servers. */
const taken = (placement: Placement, ...worlds: readonly Placed[]) =>
  worlds.map((placed) => placement.take(placed)?.id);

describe("the room for worlds", () => {
  it("is the number of worlds that servers have both worlds and seats for, in all regions or in one", async () => {
    const { serve, tick } = open();
    await serve("seats", { maxWorlds: 3, maxAgents: 5, region: "eu" });
    await serve("worlds", { maxWorlds: 1, maxAgents: 40 });
    const placement = tick();
    expect(placement.room(pairs())).toBe(3);
    expect(placement.room(pairs(), "eu")).toBe(2);
    expect(placement.room(pairs(), "")).toBe(1);
    expect(placement.room(pairs(), "us")).toBe(0);
    expect(placement.room(pairs({ seats: 6 }))).toBe(1);
    expect([...placement.regionsFor(pairs())].toSorted()).toEqual(["", "eu"]);
  });

  it("shrinks with each world, until no server has room", async () => {
    const { serve, tick } = open();
    await serve("a", { maxWorlds: 1, region: "eu" });
    await serve("b", { maxAgents: 4, region: "us" });
    const placement = tick();
    expect(placement.room(pairs())).toBe(3);
    expect(taken(placement, pairs(), pairs())).toEqual(["b", "b"]);
    expect(placement.room(pairs())).toBe(1);
    expect([...placement.regionsFor(pairs())]).toEqual(["eu"]);
    expect(taken(placement, pairs(), pairs())).toEqual(["a", undefined]);
    expect(placement.room(pairs())).toBe(0);
    expect([...placement.regionsFor(pairs())]).toEqual([]);
  });

  it("does not include servers that have more worlds or seats than they allow since they registered again", async () => {
    const { serve, addWorld, tick } = open();
    await serve("worlds", { maxWorlds: 1, region: "eu" });
    await serve("seats", { maxAgents: 3, region: "us" });
    await serve("free");
    for (const serverId of ["worlds", "seats"]) {
      await addWorld(`${serverId} 1`, serverId);
      await addWorld(`${serverId} 2`, serverId);
    }
    const placement = tick();
    expect(placement.room(pairs())).toBe(10);
    expect([...placement.regionsFor(pairs())]).toEqual([""]);
  });

  it("does not include servers that drain, lack the world type, or cannot be used now", async () => {
    const { serve, tick } = open();
    await serve("draining", { state: "draining", maxAgents: 4 });
    await serve("other", { worldTypes: ["other"], maxAgents: 4 });
    await serve("failing", { maxAgents: 4 });
    await serve("usable", { maxAgents: 6, worldTypes: ["other", "gridworld"] });
    const placement = tick("failing");
    expect(placement.room(pairs())).toBe(3);
    expect(taken(placement, pairs())).toEqual(["usable"]);
  });

  it("is shared by profiles with different world types", async () => {
    const { serve, tick } = open();
    await serve("large", { maxAgents: 40 });
    await serve("both", { maxAgents: 4, worldTypes: ["gridworld", "other"] });
    const placement = tick();
    expect(taken(placement, pairs({ seats: 4 }))).toEqual(["both"]);
    expect(taken(placement, pairs())).toEqual(["large"]);
  });
});

describe("a reported world without a record", () => {
  it("uses the room of a world and of its agents, including those that are joining, until it is not reported", async () => {
    const { serve, report, tick } = open();
    await serve("a", { maxWorlds: 10, maxAgents: 20 });
    await report("a", undefined, [
      { name: "full", agents: 6, tickets: ["one", "two"] },
      { name: "joining", agents: 1, tickets: ["three", "four", "five", "six"] },
    ]);
    expect(tick().room(pairs({ seats: 1 }))).toBe(8);
    expect(tick().room(pairs())).toBe(5);
    await report("a", undefined, [{ name: "full", agents: 6 }]);
    expect(tick().room(pairs({ seats: 1 }))).toBe(9);
    expect(tick().room(pairs())).toBe(7);
    await report("a", undefined);
    expect(tick().room(pairs())).toBe(10);
  });

  it("is not counted again once it has a record, nor when the record has been deleted since the report", async () => {
    const { serve, addWorld, endWorld, report, tick } = open();
    await serve("a", { maxWorlds: 4 });
    await addWorld("known", "a");
    await report("a", undefined, [
      { name: "known", agents: 30 },
      { name: "new", agents: 2 },
    ]);
    await report("b", undefined, [{ name: "known", agents: 30 }]);
    expect(tick().room(pairs())).toBe(2);
    await addWorld("new", "a", { seats: 34 });
    expect(tick().room(pairs())).toBe(2);
    await addWorld("known", "a", { state: "destroying" });
    expect(tick().room(pairs())).toBe(2);
    await endWorld("known");
    expect(tick().room(pairs())).toBe(3);
    await report("a", undefined, [
      { name: "known", agents: 30 },
      { name: "new", agents: 2 },
    ]);
    expect(tick().room(pairs())).toBe(0);
  });

  it("is not counted again if it may be a world that is being created", async () => {
    const { serve, addWorld, report, tick } = open();
    await serve("a");
    await addWorld("creating 1", "a", { state: "creating", name: undefined });
    await addWorld("creating 2", "a", { state: "creating", name: undefined });
    await report("a", undefined, [{ name: "x" }]);
    expect(tick().room(pairs())).toBe(8);
    await report("a", undefined, [{ name: "x" }, { name: "y" }, { name: "z" }]);
    expect(tick().room(pairs())).toBe(7);
    // A world with an agent in it has existed for longer.
    await report("a", undefined, [{ name: "x", agents: 1 }]);
    expect(tick().room(pairs())).toBe(7);
  });
});

describe("packed worlds", () => {
  it("are placed on the server with the fewest free seats that suffice, also after other worlds were placed", async () => {
    const { serve, tick } = open();
    await serve("nine", { maxAgents: 9 });
    await serve("six", { maxAgents: 6 });
    await serve("seven", { maxAgents: 7 });
    const placement = tick();
    const large = pairs({ seats: 7 });
    // Seven has no seats left, and then six has four, two and none, and then nine has seven.
    expect(taken(placement, large, pairs(), pairs(), pairs(), pairs(), pairs())).toEqual([
      ...["seven", "six", "six", "six", "nine", "nine"],
    ]);
  });

  it("are placed on the server that earlier worlds of other sizes have filled most", async () => {
    const { serve, tick } = open();
    await serve("ten", { maxAgents: 10 });
    await serve("six", { maxAgents: 6 });
    await serve("four", { maxAgents: 4 });
    const placement = tick();
    expect(taken(placement, pairs({ seats: 7 }), pairs(), pairs(), pairs())).toEqual([
      ...["ten", "ten", "four", "four"],
    ]);
  });

  it.each([
    ["a", "b"],
    ["b", "a"],
  ])(
    "among equally free servers, are placed on an allocated one first, then on the one with the lowest id (%s registered first)",
    async (...order) => {
      const { serve, tick } = open();
      for (const id of [...order, "c"]) {
        await serve(id, { maxAgents: 2, allocated: id === "c" });
      }
      expect(taken(tick(), pairs(), pairs(), pairs(), pairs())).toEqual(["c", "a", "b", undefined]);
    },
  );

  it("follow this order also among servers that have become equally free", async () => {
    const { serve, tick } = open();
    await serve("b", { maxAgents: 4 });
    await serve("c", { maxAgents: 4, allocated: true });
    await serve("a", { maxAgents: 9 });
    const placement = tick();
    // Five of the nine seats are used, so all three servers have four free seats.
    expect(taken(placement, pairs({ seats: 5 }))).toEqual(["a"]);
    expect(taken(placement, pairs({ seats: 4 }), pairs({ seats: 4 }))).toEqual(["c", "a"]);
  });
});

describe("worlds that are spread", () => {
  it("by agents do not depend on the loads that servers report", async () => {
    const { serve, report, tick } = open();
    await serve("idle", { maxAgents: 20 });
    await serve("busy", { maxAgents: 40 });
    await report("idle", 0);
    await report("busy", 1);
    const spread = pairs({ placement: "spread-agents", seats: 10 });
    // After the first world, three quarters of the large server are free, and all of the small one.
    expect(taken(tick(), spread, spread, spread)).toEqual(["idle", "busy", "busy"]);
  });

  it("by load count a world as recent for ten seconds after it was opened, and while it is being created", async () => {
    const { serve, addWorld, report, time, tick } = open();
    await serve("a");
    await serve("b");
    await report("a", 0.5);
    await report("b", 0.55);
    await addWorld("world", "a", { openedMs: startMs });
    const spread = pairs({ placement: "spread-load" });
    time.advance(9_999);
    // The recent world counts as a tenth.
    expect(taken(tick(), spread)).toEqual(["b"]);
    time.advance(1);
    expect(taken(tick(), spread)).toEqual(["a"]);
    await addWorld("other", "a", { state: "creating" });
    expect(taken(tick(), spread)).toEqual(["b"]);
  });

  it("by load expect that a further world takes as much as the average of the earlier worlds", async () => {
    const { serve, addWorld, report, tick } = open();
    await serve("a");
    await serve("b");
    await report("a", 0.4);
    await report("b", 0.55);
    await addWorld("one", "a");
    await addWorld("two", "a");
    const spread = pairs({ placement: "spread-load" });
    // With one more world, the load of "a" is 0.6.
    expect(taken(tick(), spread, spread, spread)).toEqual(["a", "b", "a"]);
  });

  it("by load count reported worlds without a record among the earlier worlds", async () => {
    const { serve, addWorld, report, tick } = open();
    await serve("a");
    await serve("b");
    await report("a", 0.4, [
      { name: "orphan", agents: 1 },
      { name: "one", agents: 2 },
    ]);
    await report("b", 0.55);
    await addWorld("one", "a");
    const spread = pairs({ placement: "spread-load" });
    // With one more world, the load of "a" is 0.6.
    expect(taken(tick(), spread, spread, spread)).toEqual(["a", "b", "a"]);
  });

  it("by load expect a tenth from a world on a server for ten, whatever load the server has without worlds", async () => {
    const { serve, report, tick } = open();
    await serve("a");
    await serve("b");
    await report("a", 0.5);
    await report("b", 0.65);
    const spread = pairs({ placement: "spread-load" });
    expect(taken(tick(), spread, spread, spread, spread)).toEqual(["a", "a", "b", "a"]);
  });

  it("by load use the share of free seats for a server that has not reported a load", async () => {
    const { serve, report, tick } = open();
    await serve("silent", { maxAgents: 20 });
    await serve("b");
    await report("b", 0.15);
    const spread = pairs({ placement: "spread-load" });
    expect(taken(tick(), spread, spread, spread, spread)).toEqual([
      "silent",
      "silent",
      "b",
      "silent",
    ]);
  });
});
