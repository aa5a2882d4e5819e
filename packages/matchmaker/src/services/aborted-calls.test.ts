// SPDX-License-Identifier: Apache-2.0

import { manualTime } from "@dm-env-rpc/transport/internal";
import { expect, it } from "vitest";
import { Fleet, profile, reports } from "../../testing/fleet.ts";
import { startMs } from "../../testing/start-ms.ts";
import { wrappedStore } from "../../testing/wrapped-stores.ts";
import { memoryStore } from "../store/memory-store.ts";

/** Opens a fleet whose store can delay its next call of one kind. */
async function slowFleet(kind: "commit" | "read") {
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
  const fleet = await Fleet.open({ time, store });
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
  return { fleet, hold };
}

const aborted = /canceled|aborted/;

it("a report whose call was aborted does not replace the next report", async () => {
  const { fleet, hold } = await slowFleet("commit");
  await using _closing = fleet;
  const server = await fleet.serve("a");
  const ids = await fleet.tickets(2);
  await fleet.settle();
  const before = { serverId: server.id, epoch: 1n, worlds: reports(server) };
  const { slow, goOn } = hold();
  const aborting = new AbortController();
  const late = fleet.registry.renewServer(before, { signal: aborting.signal });
  await slow;
  aborting.abort();
  await expect(late).rejects.toThrow(aborted);
  await fleet.joinAll(ids);
  await fleet.report(server);
  goOn();
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(["JOINED", "JOINED"]);
  expect(server.destroyed.size).toBe(0);
});

it("a registration whose call was aborted does not replace the next registration", async () => {
  const { fleet, hold } = await slowFleet("commit");
  await using _closing = fleet;
  const server = await fleet.serve("a");
  const ids = await fleet.tickets(2);
  await fleet.settle();
  const { slow, goOn } = hold();
  const aborting = new AbortController();
  const late = fleet.register(server, { signal: aborting.signal });
  await slow;
  aborting.abort();
  await expect(late).rejects.toThrow(aborted);
  await fleet.joinAll(ids);
  await fleet.register(server);
  await fleet.settle();
  goOn();
  await fleet.settle();
  expect(await fleet.states(ids)).toEqual(["JOINED", "JOINED"]);
  await fleet.report(server);
  expect(fleet.events.filter(({ kind }) => kind === "server-registered")).toHaveLength(2);
});

it("a create that was aborted and then cancelled does not create its ticket later", async () => {
  const { fleet, hold } = await slowFleet("read");
  await using _closing = fleet;
  const { slow, goOn } = hold();
  const aborting = new AbortController();
  const { signal } = aborting;
  const ticket = { ticketId: "mine", profile: "new" };
  const late = fleet.frontend.createTicket(ticket, { signal });
  await slow;
  aborting.abort();
  await expect(late).rejects.toThrow(aborted);
  await expect(fleet.frontend.cancelTicket(ticket)).rejects.toThrow(/not_found/);
  await fleet.admin.putProfile({ profile: profile({ name: "new" }) });
  goOn();
  await fleet.settle();
  await expect(fleet.ticket("mine")).rejects.toThrow(/not_found/);
});
