// SPDX-License-Identifier: Apache-2.0
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { Fleet, profile, reports } from "../../testing/fleet.ts";
import { startMs } from "../../testing/start-ms.ts";

it("calls are processed between the steps of a tick if a step takes long", async () => {
  const order: string[] = [];
  const time = manualTime(startMs);
  await using fleet = await Fleet.open({
    time,
    settings: { serverLeaseMs: 15_000, maxWaitMs: 15_000 },
    onEvent({ kind }) {
      if (kind === "server-lost") {
        // As if losing the server took this long. In the meantime a call has arrived.
        time.advance(100);
        setImmediate(() => order.push("call"));
      }
      if (kind === "server-lost" || kind === "ticket-ended") {
        order.push(kind);
      }
    },
  });
  await fleet.serve("silent");
  await fleet.tickets(1);
  await fleet.matchmaker.tick();
  // At the end of this time, one tick ends the lease of the server and, in its next step, the ticket.
  for (let passedMs = 0; passedMs < 15_000; passedMs += 1_000) {
    time.advance(1_000);
    await fleet.matchmaker.tick();
  }
  expect(order).toEqual(["server-lost", "call", "ticket-ended"]);
});

describe("a match", () => {
  it("has the number of tickets that its profile names, and its tickets are assigned", async () => {
    await using fleet = await Fleet.open();
    const server = await fleet.serve("one");
    const ids = await fleet.tickets(3);
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED", "WAITING"]);
    const [first, second] = await Promise.all(ids.map((id) => fleet.ticket(id)));
    expect(first?.assignment?.worldName).toBe("gridworld-1");
    expect(first?.assignment?.address).toBe(server.address);
    expect(second?.assignment?.worldName).toBe("gridworld-1");
    expect(second?.assignment?.joinToken).not.toBe(first?.assignment?.joinToken);
    expect(server.created).toBe(1);
  });

  it("ends with its world when all agents have left", async () => {
    await using fleet = await Fleet.open();
    const server = await fleet.serve("one");
    const ids = await fleet.tickets(2);
    await fleet.settle();
    await fleet.joinAll(ids);
    await fleet.pass(2_000);
    expect(await fleet.states(ids)).toEqual(["JOINED", "JOINED"]);
    server.worlds.get("gridworld-1")?.tickets.clear();
    await fleet.pass(2_000);
    expect(await fleet.states(ids)).toEqual(["COMPLETED", "COMPLETED"]);
    expect(server.worlds.size).toBe(0);
    expect(fleet.matchmaker.counts()).toMatchObject({ worlds: 0, matches: 0 });
  });

  it("does not end before its last agent has joined, because that agent's seat counts as taken", async () => {
    await using fleet = await Fleet.open({ profiles: [profile({ backfill: true })] });
    const server = await fleet.serve("one");
    const ids = await fleet.tickets(3);
    const [first = "", second = "", third = ""] = ids;
    await fleet.settle();
    await fleet.joinAll([first, second]);
    await fleet.pass(1_000);
    server.worlds.get("gridworld-1")?.tickets.delete(first);
    await fleet.pass(2_000);
    expect(await fleet.states(ids)).toEqual(["COMPLETED", "JOINED", "ASSIGNED"]);
    const worlds = reports(server).map((world) => ({ ...world, agents: 0, ticketIds: [third] }));
    await fleet.registry.renewServer({ serverId: server.id, epoch: 1n, worlds });
    await fleet.settle();
    expect(await fleet.states(ids)).toEqual(["COMPLETED", "COMPLETED", "JOINED"]);
    expect(server.destroyed.size).toBe(0);
  });

  it("ends although its agents joined and left between two reports", async () => {
    await using fleet = await Fleet.open();
    const server = await fleet.serve("one");
    const ids = await fleet.tickets(2);
    await fleet.settle();
    const world = { name: "gridworld-1", type: "gridworld", agents: 0, sequences: 1 };
    const worlds = [{ ...world, joins: 2, leftTicketIds: ids }];
    for (let report = 0; report < 2; report++) {
      await fleet.registry.renewServer({ serverId: server.id, epoch: 1n, worlds });
      await fleet.settle();
    }
    expect(await fleet.states(ids)).toEqual(["COMPLETED", "COMPLETED"]);
    expect(server.worlds.size).toBe(0);
  });
});
