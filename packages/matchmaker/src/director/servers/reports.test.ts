// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { LostPolicy, WorldPolicySchema } from "@dm-env-rpc/protocol/matchmaker";
import { describe, expect, it } from "vitest";
import { callsOf, eventsOf, House, playedMatch, profile } from "../../../testing/house.ts";
import { recordsOf } from "../../../testing/invariants.ts";
import { SimulatedServer } from "../../../testing/simulated-servers.ts";

describe("a report", () => {
  it("ends the tickets of agents that have left, and each end is reported once", async () => {
    await using match = await playedMatch();
    const { house, world, ids } = match;
    world.tickets.delete(ids[0] ?? "");
    await house.pass(3_000);
    expect(await house.states(ids)).toEqual(["COMPLETED", "JOINED"]);
    expect(eventsOf(house, "ticket-ended")).toEqual([
      { kind: "ticket-ended", ticketId: ids[0], state: "completed", reason: undefined },
    ]);
  });

  it("fails a ticket whose seat no agent took, one second after its token has expired", async () => {
    await using house = await House.open();
    const server = await house.serve("a");
    const ids = await house.tickets(2);
    await house.settle();
    const assignedMs = house.time.now();
    const reportAt = async (ms: number): Promise<void> => {
      house.time.advance(assignedMs + ms - house.time.now());
      await house.report(server);
      await house.settle();
    };
    await reportAt(10_000);
    await reportAt(20_000);
    await reportAt(31_000);
    expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    await reportAt(31_001);
    expect(await house.states(ids)).toEqual(["FAILED", "FAILED"]);
    const reason =
      "the ticket's seat was reserved for 30000 ms, and no agent took it; create another ticket";
    expect((await house.ticket(ids[0] ?? "")).error).toMatchObject({
      code: Code.DeadlineExceeded,
      message: reason,
    });
    expect(eventsOf(house, "ticket-ended")).toEqual(
      ids.map((ticketId) => ({ kind: "ticket-ended", ticketId, state: "failed", reason })),
    );
  });

  it("without news writes only the report itself", async () => {
    await using match = await playedMatch();
    const { house, server } = match;
    const { position } = await house.store.changes(undefined, 1_000);
    await house.report(server);
    await house.settle();
    const { entries } = await house.store.changes(position, 1_000);
    expect(entries.map(({ kind }) => kind)).toEqual(["report"]);
  });

  it.each([
    ["joins", { joins: 2 }],
    ["agents inside", { agents: 2 }],
  ])(
    "with the number of %s marks a world as used, even without join tokens",
    async (_, counted) => {
      await using house = await House.open();
      const server = house.servers.add(new SimulatedServer("a"));
      const { epoch } = await house.registry.registerServer({
        serverId: "a",
        address: server.address,
        capacity: { maxWorlds: 10, maxAgents: 40 },
        worldTypes: ["gridworld"],
      });
      await house.tickets(2);
      await house.settle();
      const report = async (counts: object): Promise<void> => {
        const world = { name: "gridworld-1", type: "gridworld", sequences: 1, ...counts };
        await house.registry.renewServer({ serverId: "a", epoch, worlds: [world] });
        await house.settle();
      };
      await report({});
      expect(callsOf(house, "destroy")).toEqual([]);
      await report(counted);
      await report({});
      expect(callsOf(house, "destroy")).toEqual(["destroy a/gridworld-1"]);
    },
  );

  it("keeps the seat of a present agent whose ticket was cancelled", async () => {
    await using house = await House.open({ profiles: [profile({ backfill: true })] });
    const server = await house.serve("a");
    const ids = await house.tickets(2);
    await house.settle();
    await house.joinAll(ids);
    await house.pass(1_000);
    await house.frontend.cancelTicket({ ticketId: ids[0] ?? "" });
    await house.pass(5_000);
    expect((await house.admin.listBackfills({})).backfills).toEqual([]);
    const [match] = [...(await recordsOf(house.store)).match.values()];
    expect(Object.keys(match?.held ?? {})).toEqual([ids[0]]);
    // The seat opens as soon as the agent has left, because its token has been used.
    server.worlds.get("gridworld-1")?.tickets.delete(ids[0] ?? "");
    await house.report(server);
    await house.settle();
    const { backfills } = await house.admin.listBackfills({});
    expect(backfills.map(({ openSeats }) => openSeats)).toEqual([["everyone"]]);
  });
});

describe("a world that ended by itself", () => {
  /** Opens a match of two agents, of which one has joined, and ends its world. */
  async function vanished(lostPolicy: LostPolicy) {
    const house = await House.open({
      profiles: [profile({ lostPolicy })],
      settings: { ticketLeaseMs: 2_000, awayMs: 20_000 },
    });
    const server = await house.serve("a", { maxWorlds: 1 });
    const ids = await house.tickets(2);
    await house.settle();
    await house.join(ids[0] ?? "");
    await house.pass(3_000);
    server.worlds.clear();
    await house.pass(1_000);
    return { house, ids, [Symbol.asyncDispose]: () => house[Symbol.asyncDispose]() };
  }

  it("completes the tickets of the agents inside, and returns the others to their pools", async () => {
    await using scene = await vanished(LostPolicy.REQUEUE);
    const { house, ids } = scene;
    expect(await house.states(ids)).toEqual(["COMPLETED", "WAITING"]);
    const message = 'the world "gridworld-1" ended on its server before the seat was taken';
    const { error } = await house.ticket(ids[1] ?? "");
    expect(error).toMatchObject({ code: Code.Aborted, message });
    await house.pass(15_000, 5_000);
    expect(house.matchmaker.counts().tickets).toMatchObject({ waiting: 1, failed: 0 });
    expect(house.matchmaker.counts()).toMatchObject({ worlds: 0, matches: 0 });
  });

  it("fails the other tickets if their profile has LostPolicy.FAIL", async () => {
    await using scene = await vanished(LostPolicy.FAIL);
    const { house, ids } = scene;
    expect(await house.states(ids)).toEqual(["COMPLETED", "FAILED"]);
    const { error } = await house.ticket(ids[1] ?? "");
    expect(error).toMatchObject({ code: Code.Aborted });
  });
});

it("a world that a server started with follows the policy of the match in it", async () => {
  const worldPolicy = create(WorldPolicySchema, { keepWhenEmpty: true });
  await using house = await House.open({ profiles: [profile({ count: 1, worldPolicy })] });
  const server = await house.serve("a");
  const name = server.create("gridworld", true);
  await house.pass(1_000);
  const [id = ""] = await house.tickets(1);
  await house.settle();
  await house.join(id);
  await house.pass(1_000);
  server.worlds.get(name)?.tickets.clear();
  await house.pass(5_000);
  expect(await house.states([id])).toEqual(["COMPLETED"]);
  expect(callsOf(house, "destroy")).toEqual([]);
});

describe("a server whose agents cancel their tickets", () => {
  it("gets no agents until it has answered, or reported again", async () => {
    await using house = await House.open({ profiles: [profile({ count: 1 })] });
    const server = await house.serve("a");
    const [first = ""] = await house.tickets(1);
    await house.settle();
    server.isUp = false;
    await house.frontend.cancelTicket({ ticketId: first });
    await house.settle();
    expect(callsOf(house, "check")).toHaveLength(2);
    const [second = ""] = await house.tickets(1);
    await house.settle();
    expect(await house.states([second])).toEqual(["WAITING"]);
    expect(callsOf(house, "create")).toHaveLength(1);
    server.isUp = true;
    await house.settle();
    expect(await house.states([second])).toEqual(["WAITING"]);
    await house.report(server);
    await house.settle();
    expect(await house.states([second])).toEqual(["ASSIGNED"]);
  });

  it("is checked only once while a check is pending", async () => {
    await using house = await House.open({ profiles: [profile({ count: 1 })] });
    await house.serve("a");
    const ids = await house.tickets(3);
    await house.settle();
    const before = callsOf(house, "check").length;
    const release = house.servers.hold("check");
    for (const id of ids) {
      await house.frontend.cancelTicket({ ticketId: id });
      await house.matchmaker.tick();
    }
    expect(callsOf(house, "check")).toHaveLength(before + 1);
    release();
    await house.settle();
  });
});

it("a world that only has an agent who is joining is not empty", async () => {
  await using house = await House.open();
  await house.serve("a");
  const [first = ""] = await house.tickets(2);
  await house.settle();
  const emptySince = async (ticketIds: readonly string[]) => {
    // The seat is taken, but the agent is not counted yet.
    const worlds = [
      { name: "gridworld-1", type: "gridworld", agents: 0, ticketIds: [...ticketIds] },
    ];
    await house.registry.renewServer({ serverId: "a", epoch: 1n, worlds });
    await house.settle();
    const [world] = (await recordsOf(house.store)).world.values();
    return world?.emptySinceMs;
  };
  expect(await emptySince([])).toBe(house.time.now());
  expect(await emptySince([first])).toBeUndefined();
});
