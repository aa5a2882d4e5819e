// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { Fleet, reports } from "../../../testing/fleet.ts";

it("reports that predate a world do not end it", async () => {
  await using fleet = await Fleet.open();
  const server = await fleet.serve("a");
  const before = reports(server);
  const ids = await fleet.tickets(2);
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  // The reports were in flight while the world was created.
  for (let late = 0; late < 3; late++) {
    fleet.time.advance(60);
    await fleet.registry.renewServer({ serverId: "a", epoch: 1n, worlds: before });
    await fleet.settle();
  }
  expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  await fleet.joinAll(ids);
  await fleet.pass(1_000);
  expect(await fleet.states(ids)).toEqual(["JOINED", "JOINED"]);
  expect(server.created).toBe(1);
});

it("a report that arrives after a later report is ignored", async () => {
  await using fleet = await Fleet.open();
  const server = await fleet.serve("a");
  const before = reports(server);
  const ids = await fleet.tickets(2);
  await fleet.settle();
  await fleet.joinAll(ids);
  const renewal = { serverId: "a", epoch: 1n };
  await fleet.registry.renewServer({ ...renewal, worlds: reports(server), reportNumber: 8n });
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(["JOINED", "JOINED"]);
  for (const reportNumber of [7n, 8n]) {
    await fleet.registry.renewServer({ ...renewal, worlds: before, reportNumber });
    await fleet.settle();
  }
  expect(await fleet.states(ids)).toEqual(["JOINED", "JOINED"]);
  await fleet.registry.renewServer({ ...renewal, worlds: before, reportNumber: 9n });
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(["COMPLETED", "COMPLETED"]);
});

it("a world that was reported and is no longer reported has ended", async () => {
  await using fleet = await Fleet.open();
  const server = await fleet.serve("a");
  const ids = await fleet.tickets(2);
  await fleet.settle();
  await fleet.report(server);
  await fleet.settle();
  server.worlds.clear();
  await fleet.report(server);
  await fleet.settle();
  expect(server.created).toBe(2);
  const [ticket] = await Promise.all(ids.map((id) => fleet.ticket(id)));
  expect(ticket?.assignment?.worldName).toBe("gridworld-2");
});

it("a world that no report ever contained counts as ended after a server's lease", async () => {
  await using fleet = await Fleet.open();
  const server = await fleet.serve("a");
  await fleet.tickets(2);
  await fleet.settle();
  server.worlds.clear();
  await fleet.pass(14_000);
  expect(server.created).toBe(1);
  await fleet.pass(2_000);
  expect(server.created).toBe(2);
});
