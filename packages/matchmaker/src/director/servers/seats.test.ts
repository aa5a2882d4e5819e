// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { House, profile } from "../../../testing/house.ts";
import { violations } from "../../../testing/invariants.ts";
import { SimulatedServer } from "../../../testing/simulated-servers.ts";

const backfilled = () => ({ profiles: [profile({ backfill: true })] });

it("a ticket that is cancelled while its agent plays keeps its seat until the agent has left", async () => {
  await using house = await House.open(backfilled());
  const server = await house.serve("a");
  const [first = "", second = "", third = ""] = await house.tickets(3);
  await house.settle();
  await house.joinAll([first, second]);
  await house.pass(1_000);
  await house.frontend.cancelTicket({ ticketId: first });
  await house.pass(60_000);
  expect(await house.states([first, second, third])).toEqual(["CANCELLED", "JOINED", "WAITING"]);
  // The ticket is deleted while its agent still plays.
  await house.pass(600_000, 10_000);
  await expect(house.ticket(first)).rejects.toThrow(/not_found/);
  expect(await violations(house.store, house.servers)).toEqual([]);
  const [fourth = ""] = await house.tickets(1);
  await house.pass(1_000);
  expect(await house.states([fourth])).toEqual(["WAITING"]);
  for (const { tickets } of server.worlds.values()) {
    tickets.delete(first);
  }
  await house.pass(1_000);
  expect(await house.states([second, fourth])).toEqual(["JOINED", "ASSIGNED"]);
  const { matches } = await house.admin.listMatches({});
  expect(matches[0]?.teams[0]?.ticketIds).toEqual([second, fourth]);
});

it("a ticket that is cancelled before its agent joined keeps its seat until its token expires", async () => {
  await using house = await House.open(backfilled());
  await house.serve("a");
  const [first = "", second = "", third = ""] = await house.tickets(3);
  await house.settle();
  await house.join(second);
  await house.frontend.cancelTicket({ ticketId: first });
  // A join may be in progress when the token expires.
  await house.pass(30_500, 500);
  expect(await house.states([third])).toEqual(["WAITING"]);
  await house.pass(1_000);
  expect(await house.states([third])).toEqual(["ASSIGNED"]);
});

it("a cancelled ticket whose agent joined and left between two reports frees its seat", async () => {
  await using house = await House.open(backfilled());
  await house.serve("a");
  const [first = "", second = "", third = ""] = await house.tickets(3);
  await house.settle();
  await house.frontend.cancelTicket({ ticketId: first });
  const world = { name: "gridworld-1", type: "gridworld", agents: 1, sequences: 1, joins: 2 };
  const worlds = [{ ...world, ticketIds: [second], leftTicketIds: [first] }];
  await house.registry.renewServer({ serverId: "a", epoch: 1n, worlds });
  await house.settle();
  expect(await house.states([second, third])).toEqual(["JOINED", "ASSIGNED"]);
});

it("an agent may still join with the token of its cancelled ticket, and no other agent gets its seat", async () => {
  await using house = await House.open(backfilled());
  const server = await house.serve("a");
  const [first = "", second = "", third = ""] = await house.tickets(3);
  await house.settle();
  await house.join(second);
  const { assignment } = await house.ticket(first);
  await house.frontend.cancelTicket({ ticketId: first });
  await house.pass(5_000);
  if (assignment === undefined) {
    throw new Error("an assignment was expected");
  }
  await house.joinWith(assignment);
  await house.pass(60_000);
  expect(await house.states([third])).toEqual(["WAITING"]);
  expect([...(server.worlds.get("gridworld-1")?.tickets ?? [])].sort()).toEqual(
    [first, second].sort(),
  );
  for (const { tickets } of server.worlds.values()) {
    tickets.delete(first);
  }
  await house.pass(1_000);
  expect(await house.states([third])).toEqual(["ASSIGNED"]);
});

it("a ticket that is cancelled before its world is created frees its seat immediately", async () => {
  await using house = await House.open(backfilled());
  let create = (): void => {};
  const created = new Promise<void>((resolve) => {
    create = resolve;
  });
  house.servers.pace = (what) => (what === "create" ? created : Promise.resolve());
  await house.serve("a");
  const [first = "", second = "", third = ""] = await house.tickets(3);
  await house.matchmaker.tick();
  expect(await house.states([first, second, third])).toEqual(["MATCHED", "MATCHED", "WAITING"]);
  await house.frontend.cancelTicket({ ticketId: first });
  create();
  await house.settle();
  expect(await house.states([second, third])).toEqual(["ASSIGNED", "ASSIGNED"]);
});

it("without join tokens, a seat is not filled again while the world's own count includes its agent", async () => {
  await using house = await House.open(backfilled());
  const server = house.servers.add(new SimulatedServer("a"));
  const { epoch } = await house.registry.registerServer({
    serverId: server.id,
    address: server.address,
    capacity: { maxWorlds: 10, maxAgents: 40 },
    worldTypes: ["gridworld"],
    joinTokens: false,
  });
  const [first = "", , third = ""] = await house.tickets(3);
  await house.settle();
  const report = (agents: number) =>
    house.registry.renewServer({
      serverId: server.id,
      epoch,
      worlds: [{ name: "gridworld-1", type: "gridworld", agents, sequences: 1, joins: 2 }],
    });
  await report(2);
  await house.settle();
  await house.frontend.cancelTicket({ ticketId: first });
  await house.settle();
  expect(await house.states([third])).toEqual(["WAITING"]);
  await report(1);
  await house.settle();
  expect(await house.states([third])).toEqual(["ASSIGNED"]);
});

it("a vacated seat stays open if the profile has no backfill, or was deleted", async () => {
  await using house = await House.open({ profiles: [profile()] });
  const server = await house.serve("a");
  const [first = "", second = "", third = ""] = await house.tickets(3);
  await house.settle();
  await house.joinAll([first, second]);
  await house.pass(1_000);
  server.worlds.get("gridworld-1")?.tickets.delete(first);
  await house.pass(2_000);
  expect(await house.states([first, second, third])).toEqual(["COMPLETED", "JOINED", "WAITING"]);
  await house.admin.deleteProfile({ name: "any" });
  await house.pass(2_000);
  expect(await house.states([second, third])).toEqual(["JOINED", "WAITING"]);
  expect(house.events.filter(({ kind }) => kind === "step-failed")).toEqual([]);
});
