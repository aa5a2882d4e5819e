// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { House, reports } from "../../../testing/house.ts";

it("reports that predate a world do not end it", async () => {
  await using house = await House.open();
  const server = await house.serve("a");
  const before = reports(server);
  const ids = await house.tickets(2);
  await house.settle();
  expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  // The reports were in flight while the world was created.
  for (let late = 0; late < 3; late++) {
    house.time.advance(60);
    await house.registry.renewServer({ serverId: "a", epoch: 1n, worlds: before });
    await house.settle();
  }
  expect(await house.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
  await house.joinAll(ids);
  await house.pass(1_000);
  expect(await house.states(ids)).toEqual(["JOINED", "JOINED"]);
  expect(server.created).toBe(1);
});

it("a report that arrives after a later report is ignored", async () => {
  await using house = await House.open();
  const server = await house.serve("a");
  const before = reports(server);
  const ids = await house.tickets(2);
  await house.settle();
  await house.joinAll(ids);
  const renewal = { serverId: "a", epoch: 1n };
  await house.registry.renewServer({ ...renewal, worlds: reports(server), reportNumber: 8n });
  await house.settle();
  expect(await house.states(ids)).toEqual(["JOINED", "JOINED"]);
  for (const reportNumber of [7n, 8n]) {
    await house.registry.renewServer({ ...renewal, worlds: before, reportNumber });
    await house.settle();
  }
  expect(await house.states(ids)).toEqual(["JOINED", "JOINED"]);
  await house.registry.renewServer({ ...renewal, worlds: before, reportNumber: 9n });
  await house.settle();
  expect(await house.states(ids)).toEqual(["COMPLETED", "COMPLETED"]);
});

it("a world that was reported and is no longer reported has ended", async () => {
  await using house = await House.open();
  const server = await house.serve("a");
  const ids = await house.tickets(2);
  await house.settle();
  await house.report(server);
  await house.settle();
  server.worlds.clear();
  await house.report(server);
  await house.settle();
  expect(server.created).toBe(2);
  const [ticket] = await Promise.all(ids.map((id) => house.ticket(id)));
  expect(ticket?.assignment?.worldName).toBe("gridworld-2");
});

it("a world that no report ever contained counts as ended after a server's lease", async () => {
  await using house = await House.open();
  const server = await house.serve("a");
  await house.tickets(2);
  await house.settle();
  server.worlds.clear();
  await house.pass(14_000);
  expect(server.created).toBe(1);
  await house.pass(2_000);
  expect(server.created).toBe(2);
});
