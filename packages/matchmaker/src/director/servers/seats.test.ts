// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { Fleet, profile } from "../../../testing/fleet.ts";
import { violations } from "../../../testing/invariants.ts";
import { SimulatedServer } from "../../../testing/simulated-servers.ts";

const backfilled = () => ({ profiles: [profile({ backfill: true })] });

it("a ticket that is cancelled while its agent plays keeps its seat until the agent has left", async () => {
  await using fleet = await Fleet.open(backfilled());
  const server = await fleet.serve("a");
  const [first = "", second = "", third = ""] = await fleet.tickets(3);
  await fleet.settle();
  await fleet.joinAll([first, second]);
  await fleet.pass(1_000);
  await fleet.frontend.cancelTicket({ ticketId: first });
  await fleet.pass(60_000);
  expect(await fleet.states([first, second, third])).toEqual(["CANCELLED", "JOINED", "WAITING"]);
  // The ticket is deleted while its agent still plays.
  await fleet.pass(600_000, 10_000);
  await expect(fleet.ticket(first)).rejects.toThrow(/not_found/);
  expect(await violations(fleet.store, fleet.servers)).toEqual([]);
  const [fourth = ""] = await fleet.tickets(1);
  await fleet.pass(1_000);
  expect(await fleet.states([fourth])).toEqual(["WAITING"]);
  for (const { tickets } of server.worlds.values()) {
    tickets.delete(first);
  }
  await fleet.pass(1_000);
  expect(await fleet.states([second, fourth])).toEqual(["JOINED", "ASSIGNED"]);
  const { matches } = await fleet.admin.listMatches({});
  expect(matches[0]?.teams[0]?.ticketIds).toEqual([second, fourth]);
});

it("a ticket that is cancelled before its agent joined keeps its seat until its token expires", async () => {
  await using fleet = await Fleet.open(backfilled());
  await fleet.serve("a");
  const [first = "", second = "", third = ""] = await fleet.tickets(3);
  await fleet.settle();
  await fleet.join(second);
  await fleet.frontend.cancelTicket({ ticketId: first });
  // A join may be in progress when the token expires.
  await fleet.pass(30_500, 500);
  expect(await fleet.states([third])).toEqual(["WAITING"]);
  await fleet.pass(1_000);
  expect(await fleet.states([third])).toEqual(["ASSIGNED"]);
});

it("a cancelled ticket whose agent joined and left between two reports frees its seat", async () => {
  await using fleet = await Fleet.open(backfilled());
  await fleet.serve("a");
  const [first = "", second = "", third = ""] = await fleet.tickets(3);
  await fleet.settle();
  await fleet.frontend.cancelTicket({ ticketId: first });
  const world = { name: "gridworld-1", type: "gridworld", agents: 1, sequences: 1, joins: 2 };
  const worlds = [{ ...world, ticketIds: [second], leftTicketIds: [first] }];
  await fleet.registry.renewServer({ serverId: "a", epoch: 1n, worlds });
  await fleet.settle();
  expect(await fleet.states([second, third])).toEqual(["JOINED", "ASSIGNED"]);
});

it("an agent may still join with the token of its cancelled ticket, and no other agent gets its seat", async () => {
  await using fleet = await Fleet.open(backfilled());
  const server = await fleet.serve("a");
  const [first = "", second = "", third = ""] = await fleet.tickets(3);
  await fleet.settle();
  await fleet.join(second);
  const { assignment } = await fleet.ticket(first);
  await fleet.frontend.cancelTicket({ ticketId: first });
  await fleet.pass(5_000);
  if (assignment === undefined) {
    throw new Error("an assignment was expected");
  }
  await fleet.joinWith(assignment);
  await fleet.pass(60_000);
  expect(await fleet.states([third])).toEqual(["WAITING"]);
  expect([...(server.worlds.get("gridworld-1")?.tickets ?? [])].sort()).toEqual(
    [first, second].sort(),
  );
  for (const { tickets } of server.worlds.values()) {
    tickets.delete(first);
  }
  await fleet.pass(1_000);
  expect(await fleet.states([third])).toEqual(["ASSIGNED"]);
});

it("a ticket that is cancelled before its world is created frees its seat immediately", async () => {
  await using fleet = await Fleet.open(backfilled());
  let create = (): void => {};
  const created = new Promise<void>((resolve) => {
    create = resolve;
  });
  fleet.servers.pace = (what) => (what === "create" ? created : Promise.resolve());
  await fleet.serve("a");
  const [first = "", second = "", third = ""] = await fleet.tickets(3);
  await fleet.matchmaker.tick();
  expect(await fleet.states([first, second, third])).toEqual(["MATCHED", "MATCHED", "WAITING"]);
  await fleet.frontend.cancelTicket({ ticketId: first });
  create();
  await fleet.settle();
  expect(await fleet.states([second, third])).toEqual(["ASSIGNED", "ASSIGNED"]);
});

it("without join tokens, a seat is not filled again while the world still counts the seat's agent", async () => {
  await using fleet = await Fleet.open(backfilled());
  const server = fleet.servers.add(new SimulatedServer("a"));
  const { epoch } = await fleet.registry.registerServer({
    serverId: server.id,
    address: server.address,
    capacity: { maxWorlds: 10, maxAgents: 40 },
    worldTypes: ["gridworld"],
    joinTokens: false,
  });
  const [first = "", , third = ""] = await fleet.tickets(3);
  await fleet.settle();
  const report = (agents: number) =>
    fleet.registry.renewServer({
      serverId: server.id,
      epoch,
      worlds: [{ name: "gridworld-1", type: "gridworld", agents, sequences: 1, joins: 2 }],
    });
  await report(2);
  await fleet.settle();
  await fleet.frontend.cancelTicket({ ticketId: first });
  await fleet.settle();
  expect(await fleet.states([third])).toEqual(["WAITING"]);
  await report(1);
  await fleet.settle();
  expect(await fleet.states([third])).toEqual(["ASSIGNED"]);
});

it("a vacated seat stays open if the profile has no backfill, or was deleted", async () => {
  await using fleet = await Fleet.open({ profiles: [profile()] });
  const server = await fleet.serve("a");
  const [first = "", second = "", third = ""] = await fleet.tickets(3);
  await fleet.settle();
  await fleet.joinAll([first, second]);
  await fleet.pass(1_000);
  server.worlds.get("gridworld-1")?.tickets.delete(first);
  await fleet.pass(2_000);
  expect(await fleet.states([first, second, third])).toEqual(["COMPLETED", "JOINED", "WAITING"]);
  await fleet.admin.deleteProfile({ name: "any" });
  await fleet.pass(2_000);
  expect(await fleet.states([second, third])).toEqual(["JOINED", "WAITING"]);
  expect(fleet.events.filter(({ kind }) => kind === "step-failed")).toEqual([]);
});
