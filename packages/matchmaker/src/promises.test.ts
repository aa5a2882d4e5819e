// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { MatchFunctionSchema, PoolSchema } from "@dm-env-rpc/protocol/matchmaker";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { afterAll, describe, expect, it } from "vitest";
import { Mortal, mortalStore } from "../testing/chaos.ts";
import { Fleet, fleetOn, profile } from "../testing/fleet.ts";
import { violations } from "../testing/invariants.ts";
import type { SimulatedServers } from "../testing/simulated-servers.ts";
import { type StoreData, stopStores, storeKinds } from "../testing/stores.ts";
import type { Store } from "./store/store.ts";

afterAll(stopStores);

/** Lease of the leader that dies or sleeps; shorter than the time for which a seat is reserved. */
const doomedLeaseMs = 20_000;

describe.each(storeKinds.filter(({ isHere }) => isHere))("with a store in $name", (kind) => {
  it("every ticket of a burst that fits the capacity is assigned", async () => {
    await using data = await kind.createData();
    await using fleet = await fleetOn(data, { profiles: [profile({ count: 4 })] });
    for (const id of ["a", "b", "c"]) {
      await fleet.serve(id, { maxWorlds: 5, maxAgents: 20 });
    }
    const ids = await fleet.tickets(60);
    await fleet.settle(5);
    expect(new Set(await fleet.states(ids))).toEqual(new Set(["ASSIGNED"]));
    expect([...fleet.servers.all.values()].map(({ worlds }) => worlds.size)).toEqual([5, 5, 5]);
    expect(await violations(fleet.store, fleet.servers)).toEqual([]);
  });

  it("tickets that do not fit wait, and are assigned once there is room", async () => {
    await using data = await kind.createData();
    await using fleet = await fleetOn(data);
    const server = await fleet.serve("a", { maxWorlds: 1 });
    const ids = await fleet.tickets(4);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED", "WAITING", "WAITING"]);
    await fleet.joinAll(ids.slice(0, 2));
    await fleet.pass(1_000);
    server.worlds.get("gridworld-1")?.tickets.clear();
    await fleet.pass(2_000);
    expect(await fleet.states(ids.slice(2))).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  it("a matchmaker that dies at any step loses no ticket and duplicates no match", async () => {
    let isDead = true;
    for (let dieAt = 1; isDead; dieAt++) {
      await using data = await kind.createData();
      await using fleet = await fleetOn(data);
      const { servers } = fleet;
      await fleet.serve("a");
      await fleet.serve("b");
      const ids = await fleet.tickets(7);
      const mortal = new Mortal(dieAt);
      await using store = await data.open();
      const dying = live(data, mortal, mortalStore(store, mortal), servers);
      await mortal.outlive(dying);
      isDead = mortal.isDead;
      servers.pace = async () => {};
      await data.pass(doomedLeaseMs);
      await fleet.settle();
      const when = `killed at step ${dieAt}`;
      expect(await fleet.states(ids), when).toEqual([...assigned(6), "WAITING"]);
      await fleet.joinAll(ids.slice(0, 6));
      // Long enough for orphaned worlds to be destroyed.
      await fleet.pass(15_000, 2_500);
      expect(await fleet.states(ids.slice(0, 6)), when).not.toContain("ASSIGNED");
      expect(await violations(fleet.store, servers), when).toEqual([]);
      const worlds = [...servers.all.values()].flatMap((server) => [...server.worlds.values()]);
      expect(
        worlds.map(({ tickets }) => tickets.size),
        when,
      ).toEqual([2, 2, 2]);
    }
  }, 600_000);

  it("a matchmaker that slept through its lease changes no record when it wakes up, and destroys the world that it created", async () => {
    await using data = await kind.createData();
    await using fleet = await fleetOn(data);
    const server = await fleet.serve("a");
    const ids = await fleet.tickets(2);
    const store = await data.open();
    await using sleeper = await Fleet.open({
      time: data.time,
      store,
      servers: fleet.servers,
      settings: { leaderLeaseMs: doomedLeaseMs },
    });
    let sleeps = (): void => {};
    let wakes = (): void => {};
    const asleep = new Promise<void>((resolve) => {
      sleeps = resolve;
    });
    const awake = new Promise<void>((resolve) => {
      wakes = resolve;
    });
    fleet.servers.pace = async (what) => {
      if (what !== "created") {
        return;
      }
      fleet.servers.pace = async () => {};
      sleeps();
      await awake;
    };
    const late = sleeper.settle();
    await asleep;
    await data.pass(doomedLeaseMs);
    await fleet.settle();
    const before = await Promise.all(ids.map((id) => fleet.ticket(id)));
    expect(before.map(({ assignment }) => assignment?.worldName)).toEqual([
      "gridworld-2",
      "gridworld-2",
    ]);
    wakes();
    await late;
    expect(await Promise.all(ids.map((id) => fleet.ticket(id)))).toEqual(before);
    expect(server.destroyed).toEqual(new Map([["gridworld-1", 1]]));
    expect(await violations(fleet.store, fleet.servers)).toEqual([]);
  });

  it("a ticket that is cancelled while its world is created gets no seat, and its match continues", async () => {
    await using data = await kind.createData();
    await using fleet = await fleetOn(data);
    await fleet.serve("a");
    const ids = await fleet.tickets(2);
    const [first = ""] = ids;
    fleet.servers.pace = async (what) => {
      if (what === "create") {
        await fleet.frontend.cancelTicket({ ticketId: first });
      }
    };
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["CANCELLED", "ASSIGNED"]);
    expect(await violations(fleet.store, fleet.servers)).toEqual([]);
  });

  it("an unused reservation expires, and its seat is assigned to the next ticket", async () => {
    await using data = await kind.createData();
    await using fleet = await fleetOn(data, { profiles: [profile({ backfill: true })] });
    await fleet.serve("a");
    const [present = "", absent = "", next = ""] = await fleet.tickets(3);
    await fleet.settle();
    await fleet.join(present);
    await fleet.pass(25_000, 5_000);
    expect(await fleet.states([present, absent, next])).toEqual(["JOINED", "ASSIGNED", "WAITING"]);
    await fleet.pass(10_000, 5_000);
    expect(await fleet.states([present, absent, next])).toEqual(["JOINED", "FAILED", "ASSIGNED"]);
    expect((await fleet.ticket(absent)).error?.message).toMatch(/seat was reserved for 30000 ms/);
    const { assignment } = await fleet.ticket(next);
    expect(assignment?.worldName).toBe((await fleet.ticket(present)).assignment?.worldName);
    expect(await violations(fleet.store, fleet.servers)).toEqual([]);
  });

  it("a seat that an agent leaves is assigned once, to the next ticket", async () => {
    await using data = await kind.createData();
    await using fleet = await fleetOn(data, { profiles: [profile({ backfill: true })] });
    const server = await fleet.serve("a");
    const [first = "", second = "", ...others] = await fleet.tickets(5);
    await fleet.settle();
    const [third = "", fourth = "", fifth = ""] = others;
    await fleet.joinAll([first, second, third, fourth]);
    await fleet.pass(1_000);
    server.worlds.get("gridworld-1")?.tickets.delete(first);
    await fleet.pass(2_000);
    expect(await fleet.states([first, second, fifth])).toEqual(["COMPLETED", "JOINED", "ASSIGNED"]);
    expect((await fleet.ticket(fifth)).assignment?.worldName).toBe("gridworld-1");
    const { backfills } = await fleet.admin.listBackfills({});
    expect(backfills).toEqual([]);
  });

  it("a ticket in the pools of two teams fills one open seat, not two", async () => {
    await using data = await kind.createData();
    const sizes = [
      { name: "left", pool: "strong", size: 1 },
      { name: "right", pool: "quick", size: 2 },
    ];
    const matchFunction = create(MatchFunctionSchema, {
      function: { case: "teams", value: { teams: sizes } },
    });
    const duel = profile({ pools: [pool("strong"), pool("quick")], matchFunction, backfill: true });
    await using fleet = await fleetOn(data, { profiles: [duel] });
    const server = await fleet.serve("a");
    const ticket = async (...tags: string[]) =>
      (await fleet.tickets(1, { searchFields: { tags } }))[0] ?? "";
    const first = [await ticket("strong"), await ticket("quick"), await ticket("quick")];
    await fleet.settle();
    await fleet.joinAll(first);
    await fleet.pass(1_000);
    const older = await ticket("quick");
    const both = await ticket("strong", "quick");
    for (const id of first) {
      server.worlds.get("gridworld-1")?.tickets.delete(id);
    }
    server.worlds.get("gridworld-1")?.tickets.add("somebody");
    await fleet.pass(2_000);
    expect(await fleet.states([older, both])).toEqual(["ASSIGNED", "ASSIGNED"]);
    const [match] = (await fleet.admin.listMatches({})).matches;
    expect(match?.teams.map(({ ticketIds }) => ticketIds)).toEqual([[both], [older]]);
    expect(await violations(fleet.store, fleet.servers)).toEqual([]);
  });

  it("a faulty function, proposal or create does not affect other matches", async () => {
    await using data = await kind.createData();
    const bad = profile({ name: "bad", pools: [pool("bad")] });
    const picky = profile({ name: "picky", pools: [pool("picky")], seats: 2 });
    await using fleet = await fleetOn(data, {
      profiles: [
        profile({ pools: [pool("good")] }),
        { ...bad, matchFunction: custom("throws"), seats: 2 },
        { ...picky, matchFunction: custom("invents") },
      ],
      functions: {
        // Proposes one match, then fails.
        *throws({ pools }) {
          const [first, second] = pools.get("bad") ?? [];
          if (first !== undefined && second !== undefined) {
            yield { teams: { all: [first, second] } };
          }
          throw new Error("the author's own fault");
        },
        *invents({ pools }) {
          const [first] = pools.get("picky") ?? [];
          if (first === undefined) {
            return;
          }
          yield { teams: { all: [{ ...first, id: "nobody" }] } };
          yield { teams: { all: [first, first] } };
          yield { teams: {} };
          yield { teams: { all: [first] } };
          yield { teams: { all: [first] } };
        },
      },
    });
    await fleet.serve("a");
    const server = await fleet.serve("b");
    server.createErrors.push(new DmEnvRpcError("INTERNAL", "the author's own fault"));
    const tags = (tag: string) => ({ searchFields: { tags: [tag] } });
    const good = await fleet.tickets(4, tags("good"));
    const thrown = await fleet.tickets(4, tags("bad"));
    const invented = await fleet.tickets(1, tags("picky"));
    await fleet.settle(5);
    expect(await fleet.states(good)).toEqual(assigned(4));
    expect(await fleet.states(thrown)).toEqual(assigned(4));
    expect(await fleet.states(invented)).toEqual(assigned(1));
    const faults = fleet.events.flatMap((event) =>
      event.kind === "bad-proposal" ? [event.error.message] : [],
    );
    expect(new Set(faults)).toEqual(
      new Set([
        "the author's own fault",
        'expected tickets of the profile\'s pools, received "nobody"',
        "expected each ticket once, received a ticket twice",
        "expected a match of 1 to 2 agents, received one of 0",
        expect.stringMatching(/expected tickets that no earlier proposal of this run contains/),
      ]),
    );
    expect(await violations(fleet.store, fleet.servers)).toEqual([]);
  });
});

/** Runs a matchmaker that is killed at some step. */
async function live(
  data: StoreData,
  mortal: Mortal,
  store: Store,
  servers: SimulatedServers,
): Promise<void> {
  let next = 1;
  const doomed = await Fleet.open({
    time: data.time,
    store,
    servers,
    settings: { leaderLeaseMs: doomedLeaseMs },
    newId: () => `doomed-${next++}`,
  });
  servers.pace = () => mortal.step(async () => {});
  await doomed.settle();
}

const pool = (tag: string) => create(PoolSchema, { name: tag, tagPresentFilters: [{ tag }] });

const custom = (name: string) =>
  create(MatchFunctionSchema, { function: { case: "custom", value: { name } } });

const assigned = (count: number): string[] => Array.from({ length: count }, () => "ASSIGNED");
