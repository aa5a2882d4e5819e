// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { callsOf, eventsOf, Fleet, profile } from "../../testing/fleet.ts";
import { startMs } from "../../testing/start-ms.ts";
import { outageError, sharedStore, wrappedStore, written } from "../../testing/wrapped-stores.ts";
import type { MatchmakerEvent } from "../model/events.ts";
import type { Ticket, World } from "../model/model.ts";
import { memoryStore } from "../store/memory-store.ts";
import { type Change, type Store, StoreError } from "../store/store.ts";

/** Opens a fleet whose store fails with the errors in `faults`. */
async function faulty(options: Parameters<typeof Fleet.open>[0] = {}) {
  const time = manualTime(startMs);
  const faults = {
    /** Returns the error of a commit of the director. */
    ofCommit: (_: readonly Change[]): Error | undefined => undefined,
    /** Returns the error of a commit's response, after its effect. */
    ofResponse: (_: readonly Change[]): Error | undefined => undefined,
    /** Error with which every call fails. */
    ofAll: undefined as Error | undefined,
    acquired: 0,
  };
  const store = wrappedStore(memoryStore({ time }), async (run, { name, args }) => {
    if (faults.ofAll !== undefined) {
      throw faults.ofAll;
    }
    if (name === "acquire") {
      faults.acquired += 1;
    }
    if (name !== "commit") {
      return await run();
    }
    const [changes, options] = args;
    const error = options?.lease === undefined ? undefined : faults.ofCommit(changes);
    if (error !== undefined) {
      throw error;
    }
    const result = await run();
    const lost = faults.ofResponse(changes);
    if (lost !== undefined) {
      throw lost;
    }
    return result;
  });
  const fleet = await Fleet.open({ time, store, ...options });
  return { fleet, faults, [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose]() };
}

const kindsOf = ({ events }: Fleet): MatchmakerEvent["kind"][] => events.map(({ kind }) => kind);
const fencedError = () => new StoreError("fenced", "another matchmaker leads");

/** Runs everything that does not wait for a timer. */
async function idle(): Promise<void> {
  for (let turn = 0; turn < 30; turn++) {
    await setImmediate();
  }
}

describe("the director's loop", () => {
  it("ticks immediately, then at its interval, and as soon as a record has changed", async () => {
    const settings = { tickMs: 500, minTickMs: 20, leaderLeaseMs: 60_000 };
    await using fleet = await Fleet.open({ run: true, settings });
    const ticks = () => eventsOf(fleet, "ticked").length;
    await idle();
    expect(kindsOf(fleet)).toEqual(["leading", "ticked"]);
    expect(eventsOf(fleet, "ticked")).toEqual([{ kind: "ticked", tookMs: 0, waiting: 0 }]);
    fleet.time.advance(20);
    await idle();
    fleet.time.advance(499);
    await idle();
    expect(ticks()).toBe(1);
    fleet.time.advance(1);
    await idle();
    expect(ticks()).toBe(2);
    fleet.time.advance(20);
    await idle();
    await fleet.frontend.createTicket({});
    await idle();
    expect(ticks()).toBe(3);
    expect(eventsOf(fleet, "ticked").at(-1)).toMatchObject({ waiting: 1 });
    // A change during the shortest pause between two ticks is not forgotten.
    await fleet.frontend.createTicket({});
    await idle();
    expect(ticks()).toBe(3);
    fleet.time.advance(20);
    await idle();
    expect(ticks()).toBe(4);
  });

  it("releases the lease when it ends", async () => {
    const time = manualTime(startMs);
    const shared = sharedStore(memoryStore({ time }));
    const first = await Fleet.open({ time, store: shared, run: true });
    await idle();
    expect(first.matchmaker.isLeading).toBe(true);
    const closed = first.matchmaker.close();
    await idle();
    time.advance(1_000);
    await closed;
    expect(kindsOf(first).at(-1)).toBe("following");
    expect(first.matchmaker.isLeading).toBe(false);
    const before = first.events.length;
    await using second = await Fleet.open({ time, store: shared });
    await second.matchmaker.tick();
    expect(second.matchmaker.isLeading).toBe(true);
    await second.frontend.createTicket({});
    await idle();
    expect(first.events).toHaveLength(before);
  });

  it("starts no further creates once it ends, and no longer listens to its store", async () => {
    const time = manualTime(startMs);
    const inner = memoryStore({ time });
    let listeners = 0;
    const store: Store = {
      ...inner,
      onChange(listener) {
        listeners += 1;
        const stop = inner.onChange(listener);
        return () => {
          listeners -= 1;
          stop();
        };
      },
    };
    const settings = { minTickMs: 20, maxCreatesPerServer: 1 };
    const profiles = [profile({ count: 1 })];
    const fleet = await Fleet.open({ time, store, profiles, settings, run: true });
    await fleet.serve("a");
    const release = fleet.servers.hold("create");
    await fleet.tickets(3);
    time.advance(20);
    await idle();
    expect(eventsOf(fleet, "matched")).toHaveLength(3);
    const closed = fleet.matchmaker.close();
    await idle();
    release();
    await closed;
    expect(callsOf(fleet, "create")).toHaveLength(1);
    expect(listeners).toBe(0);
  });

  it("renews its lease, so that it need not acquire the lease again", async () => {
    const settings = { leaderLeaseMs: 6_000 };
    await using scene = await faulty({ run: true, settings });
    const { fleet, faults } = scene;
    await idle();
    expect(faults.acquired).toBe(1);
    for (let seconds = 0; seconds < 20; seconds++) {
      fleet.time.advance(1_000);
      await idle();
      expect(fleet.matchmaker.isLeading).toBe(true);
    }
    expect(faults.acquired).toBe(1);
    expect(kindsOf(fleet)).not.toContain("following");
  });
});

describe("a director that loses the lead", () => {
  it("emits following when another matchmaker has acquired the lease, which then ticks", async () => {
    const time = manualTime(startMs);
    const store = sharedStore(memoryStore({ time }));
    const settings = { leaderLeaseMs: 6_000 };
    await using first = await Fleet.open({ time, store, settings });
    await using second = await Fleet.open({ time, store, settings });
    await first.matchmaker.tick();
    await second.matchmaker.tick();
    expect(kindsOf(second)).toEqual([]);
    time.advance(6_000);
    await second.matchmaker.tick();
    expect(kindsOf(second)).toEqual(["leading", "ticked"]);
    await first.matchmaker.tick();
    await first.matchmaker.tick();
    expect(kindsOf(first)).toEqual(["leading", "ticked", "following"]);
  });

  it("acquires the lead again after the shortest pause between two ticks", async () => {
    const settings = { tickMs: 60_000, minTickMs: 20, leaderLeaseMs: 600_000 };
    await using scene = await faulty({ run: true, settings });
    const { fleet, faults } = scene;
    await fleet.serve("a");
    await fleet.tickets(2);
    faults.ofCommit = fencedError;
    fleet.time.advance(20);
    await idle();
    expect(kindsOf(fleet).at(-1)).toBe("following");
    faults.ofCommit = () => undefined;
    fleet.time.advance(20);
    await idle();
    expect(kindsOf(fleet).filter((kind) => kind === "leading")).toHaveLength(2);
  });

  it("changes nothing while it does not lead, and acquires the lead again", async () => {
    await using scene = await faulty();
    const { fleet, faults } = scene;
    await fleet.serve("a");
    await fleet.settle();
    const ids = await fleet.tickets(2);
    faults.ofCommit = fencedError;
    await fleet.matchmaker.tick();
    expect(kindsOf(fleet).at(-1)).toBe("following");
    expect(fleet.matchmaker.isLeading).toBe(false);
    expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
    expect(faults.acquired).toBe(1);
    faults.ofCommit = () => undefined;
    await fleet.settle();
    expect(faults.acquired).toBe(2);
    expect(kindsOf(fleet).filter((kind) => kind === "leading" || kind === "following")).toEqual([
      "leading",
      "following",
      "leading",
    ]);
    expect(eventsOf(fleet, "step-failed")).toEqual([]);
    expect(eventsOf(fleet, "store-failed")).toEqual([]);
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  /** Lets the director lose the lead, and acquire it again. */
  async function loseLead({ fleet, faults }: Awaited<ReturnType<typeof faulty>>): Promise<void> {
    await fleet.tickets(2);
    faults.ofCommit = fencedError;
    await fleet.matchmaker.tick();
    faults.ofCommit = () => undefined;
    expect(kindsOf(fleet).at(-1)).toBe("following");
    await fleet.matchmaker.tick();
    expect(fleet.matchmaker.isLeading).toBe(true);
  }

  it("starts the lease of each server again", async () => {
    await using scene = await faulty({ settings: { serverLeaseMs: 15_000 } });
    const { fleet } = scene;
    await fleet.serve("a");
    await fleet.settle();
    const wait = async (seconds: number): Promise<void> => {
      for (let second = 0; second < seconds; second++) {
        fleet.time.advance(1_000);
        await fleet.matchmaker.tick();
      }
    };
    await wait(14);
    await loseLead(scene);
    await wait(14);
    expect(eventsOf(fleet, "server-lost")).toEqual([]);
    await wait(2);
    expect(eventsOf(fleet, "server-lost")).toEqual([{ kind: "server-lost", serverId: "a" }]);
  });

  it("waits the full orphanMs again before it destroys an orphaned world", async () => {
    await using scene = await faulty({ settings: { orphanMs: 10_000 } });
    const { fleet } = scene;
    const server = await fleet.serve("a");
    const name = server.create("gridworld");
    await fleet.pass(9_000);
    await loseLead(scene);
    await fleet.settle();
    await fleet.pass(5_000);
    expect(callsOf(fleet, "destroy")).toEqual([]);
    await fleet.pass(6_000);
    expect(callsOf(fleet, "destroy")).toEqual([`destroy a/${name}`]);
  });

  it("ends a world that was reported under its earlier lead and is missing in reports under its new lead", async () => {
    await using scene = await faulty({ profiles: [profile({ count: 1 })] });
    const { fleet } = scene;
    const server = await fleet.serve("a");
    const [id = ""] = await fleet.tickets(1);
    await fleet.settle();
    await fleet.pass(1_000);
    await loseLead(scene);
    server.worlds.clear();
    await fleet.report(server);
    await fleet.settle();
    expect((await fleet.ticket(id)).assignment?.worldName).not.toBe("gridworld-1");
  });
});

describe("an unavailable store", () => {
  it("is reported, and servers do not count as silent meanwhile", async () => {
    await using scene = await faulty({ settings: { serverLeaseMs: 15_000 } });
    const { fleet, faults } = scene;
    await fleet.serve("a");
    await fleet.pass(10_000);
    faults.ofAll = outageError();
    for (let second = 0; second < 20; second++) {
      fleet.time.advance(1_000);
      await fleet.matchmaker.tick();
    }
    expect(eventsOf(fleet, "store-failed")[0]).toMatchObject({
      error: { message: "the store is away" },
    });
    faults.ofAll = undefined;
    await fleet.matchmaker.tick();
    fleet.time.advance(1_000);
    await fleet.matchmaker.tick();
    expect(eventsOf(fleet, "server-lost")).toEqual([]);
    expect(eventsOf(fleet, "step-failed")).toEqual([]);
  });

  it("restarts the lease of each server when it is back", async () => {
    await using scene = await faulty({ settings: { serverLeaseMs: 15_000 } });
    const { fleet, faults } = scene;
    await fleet.serve("a");
    const wait = async (seconds: number): Promise<void> => {
      for (let second = 0; second < seconds; second++) {
        fleet.time.advance(1_000);
        await fleet.matchmaker.tick();
      }
    };
    await wait(10);
    faults.ofAll = outageError();
    await wait(10);
    faults.ofAll = undefined;
    await wait(15);
    expect(eventsOf(fleet, "server-lost")).toEqual([]);
    await wait(1);
    expect(eventsOf(fleet, "server-lost")).toHaveLength(1);
  });

  it("does not end a matchmaker's lead before the matchmaker's lease expires", async () => {
    await using scene = await faulty({ settings: { leaderLeaseMs: 6_000 } });
    const { fleet, faults } = scene;
    await fleet.matchmaker.tick();
    faults.ofAll = outageError();
    const tickIn = async (ms: number): Promise<void> => {
      fleet.time.advance(ms);
      await fleet.matchmaker.tick();
    };
    await tickIn(5_000);
    expect(kindsOf(fleet)).not.toContain("following");
    await tickIn(1_000);
    expect(kindsOf(fleet).filter((kind) => kind === "following")).toHaveLength(1);
    await tickIn(1_000);
    expect(kindsOf(fleet).filter((kind) => kind === "following")).toHaveLength(1);
    faults.ofAll = undefined;
    await tickIn(1_000);
    expect(fleet.matchmaker.isLeading).toBe(true);
  });

  it("loses nothing of a report that is being processed", async () => {
    await using scene = await faulty();
    const { fleet, faults } = scene;
    const server = await fleet.serve("a");
    const ids = await fleet.tickets(2);
    await fleet.settle();
    await fleet.joinAll(ids);
    await fleet.report(server);
    faults.ofCommit = (changes) =>
      written(changes, "ticket").some(({ state }) => state === "joined")
        ? outageError()
        : undefined;
    await fleet.matchmaker.tick();
    expect(eventsOf(fleet, "store-failed")).toHaveLength(1);
    faults.ofCommit = () => undefined;
    await fleet.matchmaker.tick();
    expect(await fleet.states(ids)).toEqual(["JOINED", "JOINED"]);
  });
});

it("an unexpected error of a tick is reported, and the next tick goes on", async () => {
  await using scene = await faulty();
  const { fleet, faults } = scene;
  const error = new Error("unexpected");
  faults.ofAll = error;
  await fleet.matchmaker.tick();
  expect(fleet.events).toEqual([{ kind: "step-failed", step: "tick", error }]);
  faults.ofAll = undefined;
  await fleet.matchmaker.tick();
  expect(fleet.matchmaker.isLeading).toBe(true);
});

describe("a step that fails", () => {
  const isWorld = (is: (world: World) => boolean) => (changes: readonly Change[]) =>
    written(changes, "world").some(is);
  const isTicket = (is: (ticket: Ticket) => boolean) => (changes: readonly Change[]) =>
    written(changes, "ticket").some(is);
  const isNewMatch = ({ kind, version }: Change): boolean => kind === "match" && version === 0;

  it.each<[string, (changes: readonly Change[]) => boolean]>([
    ["servers", (changes) => changes.some((each) => each.kind === "server")],
    ["tickets", isTicket(({ reason }) => reason?.message.includes("maxWaitMs") === true)],
    ["report of a", isTicket(({ state }) => state === "joined")],
    ["policies of a", isWorld(({ state }) => state === "destroying")],
    ["orphaned worlds", isWorld(({ profile }) => profile === "")],
    ["matches", (changes) => changes.some(isNewMatch)],
    [
      "spare worlds",
      isWorld(({ state, matchId }) => state === "creating" && matchId === undefined),
    ],
    [
      "open seats",
      (changes) =>
        !changes.some(isNewMatch) &&
        isWorld(({ state }) => state === "open")(changes) &&
        written(changes, "ticket").length === 1,
    ],
  ])("(%s) is reported with its name, and the tick goes on", async (step, fails) => {
    await using scene = await faulty({
      profiles: [profile({ backfill: true }), profile({ name: "ahead", precreatedWorlds: 1 })],
      settings: { maxWaitMs: 120_000, serverLeaseMs: 15_000, lostServerMs: 300_000 },
    });
    const { fleet, faults } = scene;
    const error = new Error("unexpected");
    let failed = 0;
    faults.ofCommit = (changes) => {
      if (!fails(changes)) {
        return undefined;
      }
      failed += 1;
      return error;
    };
    const server = await fleet.serve("a");
    await fleet.serve("silent");
    server.create("gridworld", true);
    const ids = await fleet.tickets(3, { profile: "any" });
    await fleet.pass(2_000);
    for (const id of ids.slice(0, 2)) {
      await fleet.join(id).catch(() => {});
    }
    await fleet.pass(2_000);
    server.worlds.get("gridworld-2")?.tickets.clear();
    server.worlds.get("gridworld-1")?.tickets.delete(ids[0] ?? "");
    await fleet.pass(2_000);
    for (const world of server.worlds.values()) {
      world.tickets.clear();
    }
    fleet.servers.all.delete("silent.test:1");
    await fleet.tickets(1, { profile: "ahead" });
    await fleet.pass(180_000, 2_000);
    expect(failed).toBeGreaterThan(0);
    expect(eventsOf(fleet, "step-failed")[0]).toEqual({ kind: "step-failed", step, error });
    expect(eventsOf(fleet, "ticked").length).toBeGreaterThan(90);
    expect(eventsOf(fleet, "store-failed")).toEqual([]);
  });
});

describe("a world that was created while its store failed", () => {
  const isOpening = (changes: readonly Change[]): boolean =>
    written(changes, "world").some(({ state }) => state === "open");

  /** Starts a match whose world is being created. */
  async function creating() {
    const scene = await faulty({ settings: { orphanMs: 600_000 } });
    const { fleet } = scene;
    const release = fleet.servers.hold("create");
    const server = await fleet.serve("a");
    const ids = await fleet.tickets(2);
    await fleet.matchmaker.tick();
    return { ...scene, server, ids, release };
  }

  it("is recorded once the store is back", async () => {
    await using scene = await creating();
    const { fleet, faults, server, ids, release } = scene;
    faults.ofAll = outageError();
    release();
    for (let times = 0; times < 5; times++) {
      await idle();
      fleet.time.advance(200);
    }
    expect(eventsOf(fleet, "world-created")).toEqual([]);
    faults.ofAll = undefined;
    await expect
      .poll(async () => {
        fleet.time.advance(200);
        return await fleet.states(ids);
      })
      .toEqual(["ASSIGNED", "ASSIGNED"]);
    await fleet.matchmaker.settled();
    expect(server.created).toBe(1);
    expect(server.destroyed.size).toBe(0);
    expect(eventsOf(fleet, "world-created")).toHaveLength(1);
  });

  it("is recorded once if the response of the commit was lost", async () => {
    await using scene = await creating();
    const { fleet, faults, server, ids, release } = scene;
    faults.ofResponse = (changes) => {
      if (!isOpening(changes)) {
        return undefined;
      }
      faults.ofResponse = () => undefined;
      return outageError();
    };
    release();
    await fleet.matchmaker.settled();
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect(server.created).toBe(1);
    expect(server.destroyed.size).toBe(0);
    expect(eventsOf(fleet, "world-created")).toHaveLength(1);
    expect(eventsOf(fleet, "step-failed")).toEqual([]);
  });

  it("is destroyed if another matchmaker leads by then and creates its own world", async () => {
    await using scene = await creating();
    const { fleet, faults, server, ids, release } = scene;
    faults.ofCommit = (changes) => (isOpening(changes) ? fencedError() : undefined);
    release();
    await fleet.matchmaker.settled();
    expect(callsOf(fleet, "destroy")).toEqual(["destroy a/gridworld-1"]);
    expect(eventsOf(fleet, "world-created")).toEqual([]);
    faults.ofCommit = () => undefined;
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    expect([...server.worlds.keys()]).toEqual(["gridworld-2"]);
  });

  it("is kept if another matchmaker leads by then, but the world's record was committed before", async () => {
    await using scene = await creating();
    const { fleet, faults, ids, release } = scene;
    faults.ofResponse = (changes) => (isOpening(changes) ? fencedError() : undefined);
    release();
    await fleet.matchmaker.settled();
    expect(callsOf(fleet, "destroy")).toEqual([]);
    expect(eventsOf(fleet, "world-created")).toHaveLength(1);
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  it("is reported as step-failed if its commit throws anything but a StoreError", async () => {
    await using scene = await creating();
    const { fleet, faults, release } = scene;
    const error = new Error("unexpected");
    faults.ofCommit = (changes) => (isOpening(changes) ? error : undefined);
    release();
    await fleet.matchmaker.settled();
    const [failed] = eventsOf(fleet, "step-failed");
    expect(failed).toMatchObject({ error });
    expect(failed?.step).toMatch(/^id-/);
    expect(eventsOf(fleet, "store-failed")).toEqual([]);
  });
});
