// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { LostPolicy, WorldPolicySchema } from "@dm-env-rpc/protocol/matchmaker";
import { describe, expect, it } from "vitest";
import { callsOf, eventsOf, Fleet, playedMatch, profile } from "../../../testing/fleet.ts";
import { recordsOf } from "../../../testing/invariants.ts";
import { SimulatedServer } from "../../../testing/simulated-servers.ts";

describe("a report", () => {
  it("ends the tickets of agents that have left, and each end is reported once", async () => {
    await using match = await playedMatch();
    const { fleet, world, ids } = match;
    world.tickets.delete(ids[0] ?? "");
    await fleet.pass(3_000);
    expect(await fleet.states(ids)).toEqual(["COMPLETED", "JOINED"]);
    expect(eventsOf(fleet, "ticket-ended")).toEqual([
      { kind: "ticket-ended", ticketId: ids[0], state: "completed", reason: undefined },
    ]);
  });

  it("fails a ticket whose seat no agent took, one second after its token has expired", async () => {
    await using fleet = await Fleet.open();
    const server = await fleet.serve("a");
    const ids = await fleet.tickets(2);
    await fleet.settle();
    const assignedMs = fleet.time.now();
    const reportAt = async (ms: number): Promise<void> => {
      fleet.time.advance(assignedMs + ms - fleet.time.now());
      await fleet.report(server);
      await fleet.settle();
    };
    await reportAt(10_000);
    await reportAt(20_000);
    await reportAt(31_000);
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
    await reportAt(31_001);
    expect(await fleet.states(ids)).toEqual(["FAILED", "FAILED"]);
    const reason =
      "the ticket's seat was reserved for 30000 ms, and no agent took it; create another ticket";
    expect((await fleet.ticket(ids[0] ?? "")).error).toMatchObject({
      code: Code.DeadlineExceeded,
      message: reason,
    });
    expect(eventsOf(fleet, "ticket-ended")).toEqual(
      ids.map((ticketId) => ({ kind: "ticket-ended", ticketId, state: "failed", reason })),
    );
  });

  it("without news writes only the report itself", async () => {
    await using match = await playedMatch();
    const { fleet, server } = match;
    const { position } = await fleet.store.changes(undefined, 1_000);
    await fleet.report(server);
    await fleet.settle();
    const { entries } = await fleet.store.changes(position, 1_000);
    expect(entries.map(({ kind }) => kind)).toEqual(["report"]);
  });

  it.each([
    ["joins", { joins: 2 }],
    ["agents inside", { agents: 2 }],
  ])(
    "with the number of %s marks a world as used, even without join tokens",
    async (_, counted) => {
      await using fleet = await Fleet.open();
      const server = fleet.servers.add(new SimulatedServer("a"));
      const { epoch } = await fleet.registry.registerServer({
        serverId: "a",
        address: server.address,
        capacity: { maxWorlds: 10, maxAgents: 40 },
        worldTypes: ["gridworld"],
      });
      await fleet.tickets(2);
      await fleet.settle();
      const report = async (counts: object): Promise<void> => {
        const world = { name: "gridworld-1", type: "gridworld", sequences: 1, ...counts };
        await fleet.registry.renewServer({ serverId: "a", epoch, worlds: [world] });
        await fleet.settle();
      };
      await report({});
      expect(callsOf(fleet, "destroy")).toEqual([]);
      await report(counted);
      await report({});
      expect(callsOf(fleet, "destroy")).toEqual(["destroy a/gridworld-1"]);
    },
  );

  it("keeps the seat of a present agent whose ticket was cancelled", async () => {
    await using fleet = await Fleet.open({ profiles: [profile({ backfill: true })] });
    const server = await fleet.serve("a");
    const ids = await fleet.tickets(2);
    await fleet.settle();
    await fleet.joinAll(ids);
    await fleet.pass(1_000);
    await fleet.frontend.cancelTicket({ ticketId: ids[0] ?? "" });
    await fleet.pass(5_000);
    expect((await fleet.admin.listBackfills({})).backfills).toEqual([]);
    const [match] = [...(await recordsOf(fleet.store)).match.values()];
    expect(Object.keys(match?.held ?? {})).toEqual([ids[0]]);
    // The seat opens as soon as the agent has left, because its token has been used.
    server.worlds.get("gridworld-1")?.tickets.delete(ids[0] ?? "");
    await fleet.report(server);
    await fleet.settle();
    const { backfills } = await fleet.admin.listBackfills({});
    expect(backfills.map(({ openSeats }) => openSeats)).toEqual([["everyone"]]);
  });
});

describe("a world that ended by itself", () => {
  /** Opens a match of two agents, of which one has joined, and ends its world. */
  async function vanished(lostPolicy: LostPolicy) {
    const fleet = await Fleet.open({
      profiles: [profile({ lostPolicy })],
      settings: { ticketLeaseMs: 2_000, awayMs: 20_000 },
    });
    const server = await fleet.serve("a", { maxWorlds: 1 });
    const ids = await fleet.tickets(2);
    await fleet.settle();
    await fleet.join(ids[0] ?? "");
    await fleet.pass(3_000);
    server.worlds.clear();
    await fleet.pass(1_000);
    return { fleet, ids, [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose]() };
  }

  it("completes the tickets of the agents inside, and returns the others to their pools", async () => {
    await using scene = await vanished(LostPolicy.REQUEUE);
    const { fleet, ids } = scene;
    expect(await fleet.states(ids)).toEqual(["COMPLETED", "WAITING"]);
    const message = 'the world "gridworld-1" ended on its server before the seat was taken';
    const { error } = await fleet.ticket(ids[1] ?? "");
    expect(error).toMatchObject({ code: Code.Aborted, message });
    await fleet.pass(15_000, 5_000);
    expect(fleet.matchmaker.counts().tickets).toMatchObject({ waiting: 1, failed: 0 });
    expect(fleet.matchmaker.counts()).toMatchObject({ worlds: 0, matches: 0 });
  });

  it("fails the other tickets if their profile has LostPolicy.FAIL", async () => {
    await using scene = await vanished(LostPolicy.FAIL);
    const { fleet, ids } = scene;
    expect(await fleet.states(ids)).toEqual(["COMPLETED", "FAILED"]);
    const { error } = await fleet.ticket(ids[1] ?? "");
    expect(error).toMatchObject({ code: Code.Aborted });
  });
});

it("a world that a server started with follows the policy of the match in it", async () => {
  const worldPolicy = create(WorldPolicySchema, { keepWhenEmpty: true });
  await using fleet = await Fleet.open({ profiles: [profile({ count: 1, worldPolicy })] });
  const server = await fleet.serve("a");
  const name = server.create("gridworld", true);
  await fleet.pass(1_000);
  const [id = ""] = await fleet.tickets(1);
  await fleet.settle();
  await fleet.join(id);
  await fleet.pass(1_000);
  server.worlds.get(name)?.tickets.clear();
  await fleet.pass(5_000);
  expect(await fleet.states([id])).toEqual(["COMPLETED"]);
  expect(callsOf(fleet, "destroy")).toEqual([]);
});

describe("a server whose agents cancel their tickets", () => {
  it("gets no agents until it has answered, or reported again", async () => {
    await using fleet = await Fleet.open({ profiles: [profile({ count: 1 })] });
    const server = await fleet.serve("a");
    const [first = ""] = await fleet.tickets(1);
    await fleet.settle();
    server.isUp = false;
    await fleet.frontend.cancelTicket({ ticketId: first });
    await fleet.settle();
    expect(callsOf(fleet, "check")).toHaveLength(2);
    const [second = ""] = await fleet.tickets(1);
    await fleet.settle();
    expect(await fleet.states([second])).toEqual(["WAITING"]);
    expect(callsOf(fleet, "create")).toHaveLength(1);
    server.isUp = true;
    await fleet.settle();
    expect(await fleet.states([second])).toEqual(["WAITING"]);
    await fleet.report(server);
    await fleet.settle();
    expect(await fleet.states([second])).toEqual(["ASSIGNED"]);
  });

  it("is checked only once while a check is pending", async () => {
    await using fleet = await Fleet.open({ profiles: [profile({ count: 1 })] });
    await fleet.serve("a");
    const ids = await fleet.tickets(3);
    await fleet.settle();
    const before = callsOf(fleet, "check").length;
    const release = fleet.servers.hold("check");
    for (const id of ids) {
      await fleet.frontend.cancelTicket({ ticketId: id });
      await fleet.matchmaker.tick();
    }
    expect(callsOf(fleet, "check")).toHaveLength(before + 1);
    release();
    await fleet.settle();
  });
});

it("a world is not empty while an agent is joining it", async () => {
  await using fleet = await Fleet.open();
  await fleet.serve("a");
  const [first = ""] = await fleet.tickets(2);
  await fleet.settle();
  const emptySince = async (ticketIds: readonly string[]) => {
    // The seat is taken, but the agent is not counted yet.
    const worlds = [
      { name: "gridworld-1", type: "gridworld", agents: 0, ticketIds: [...ticketIds] },
    ];
    await fleet.registry.renewServer({ serverId: "a", epoch: 1n, worlds });
    await fleet.settle();
    const [world] = (await recordsOf(fleet.store)).world.values();
    return world?.emptySinceMs;
  };
  expect(await emptySince([])).toBe(fleet.time.now());
  expect(await emptySince([first])).toBeUndefined();
});
