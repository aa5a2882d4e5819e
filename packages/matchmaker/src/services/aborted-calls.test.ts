// SPDX-License-Identifier: Apache-2.0

import { manualTime } from "@dm-env-rpc/transport/internal";
import { expect, it } from "vitest";
import { House, profile, reports } from "../../testing/house.ts";
import { startMs } from "../../testing/start-ms.ts";
import { wrappedStore } from "../../testing/wrapped-stores.ts";
import { memoryStore } from "../store/memory-store.ts";

/** Opens a house whose store can delay its next call of one kind. */
async function slowHouse(kind: "commit" | "read") {
  const time = manualTime(startMs);
  let isSlow = (): void => {};
  let delay: Promise<void> | undefined;
  const store = wrappedStore(memoryStore({ time }), async (run, { name }) => {
    if (name === kind && delay !== undefined) {
      const held = delay;
      delay = undefined;
      isSlow();
      await held;
    }
    return await run();
  });
  const house = await House.open({ time, store });
  /** Delays the next call of `kind` until the test resumes it. */
  const hold = () => {
    let goOn = (): void => {};
    const slow = new Promise<void>((resolve) => {
      isSlow = resolve;
    });
    delay = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    return { slow, goOn };
  };
  return { house, hold };
}

const aborted = /canceled|aborted/;

it("a report whose call was aborted does not replace the next report", async () => {
  const { house, hold } = await slowHouse("commit");
  await using _closing = house;
  const server = await house.serve("a");
  const ids = await house.tickets(2);
  await house.settle();
  const before = { serverId: server.id, epoch: 1n, worlds: reports(server) };
  const { slow, goOn } = hold();
  const aborting = new AbortController();
  const late = house.registry.renewServer(before, { signal: aborting.signal });
  await slow;
  aborting.abort();
  await expect(late).rejects.toThrow(aborted);
  await house.joinAll(ids);
  await house.report(server);
  goOn();
  await house.settle();
  expect(await house.states(ids)).toEqual(["JOINED", "JOINED"]);
  expect(server.destroyed.size).toBe(0);
});

it("a registration whose call was aborted does not replace the next registration", async () => {
  const { house, hold } = await slowHouse("commit");
  await using _closing = house;
  const server = await house.serve("a");
  const ids = await house.tickets(2);
  await house.settle();
  const { slow, goOn } = hold();
  const aborting = new AbortController();
  const late = house.register(server, { signal: aborting.signal });
  await slow;
  aborting.abort();
  await expect(late).rejects.toThrow(aborted);
  await house.joinAll(ids);
  await house.register(server);
  await house.settle();
  goOn();
  await house.settle();
  expect(await house.states(ids)).toEqual(["JOINED", "JOINED"]);
  await house.report(server);
  expect(house.events.filter(({ kind }) => kind === "server-registered")).toHaveLength(2);
});

it("a create that was aborted and then cancelled does not create its ticket later", async () => {
  const { house, hold } = await slowHouse("read");
  await using _closing = house;
  const { slow, goOn } = hold();
  const aborting = new AbortController();
  const { signal } = aborting;
  const ticket = { ticketId: "mine", profile: "new" };
  const late = house.frontend.createTicket(ticket, { signal });
  await slow;
  aborting.abort();
  await expect(late).rejects.toThrow(aborted);
  await expect(house.frontend.cancelTicket(ticket)).rejects.toThrow(/not_found/);
  await house.admin.putProfile({ profile: profile({ name: "new" }) });
  goOn();
  await house.settle();
  await expect(house.ticket("mine")).rejects.toThrow(/not_found/);
});
