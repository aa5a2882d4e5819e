// SPDX-License-Identifier: Apache-2.0

import { Code } from "@connectrpc/connect";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { afterAll, describe, expect, it } from "vitest";
import { eventsOf, Fleet, fleetOn } from "../../testing/fleet.ts";
import { recordsOf } from "../../testing/invariants.ts";
import { startMs } from "../../testing/start-ms.ts";
import { stopStores, storeKinds } from "../../testing/stores.ts";
import { waitingTicket } from "../../testing/waiting-ticket.ts";
import { memoryStore } from "../store/memory-store.ts";
import type { Store } from "../store/store.ts";

afterAll(stopStores);

it("each ticket that waited too long is reported once, after its failure is committed", async () => {
  const time = manualTime(startMs);
  const inner = memoryStore({ time });
  let rival = async (): Promise<unknown> => undefined;
  const store: Store = {
    ...inner,
    async commit(changes, options) {
      if (options?.lease !== undefined) {
        await rival();
      }
      return await inner.commit(changes, options);
    },
  };
  await using fleet = await Fleet.open({ time, store, settings: { maxWaitMs: 60_000 } });
  const ids = await fleet.tickets(3);
  const [cancelled = "", ...late] = ids;
  time.advance(61_000);
  rival = async () => {
    rival = async () => undefined;
    await fleet.frontend.cancelTicket({ ticketId: cancelled });
  };
  const ended = () =>
    fleet.events.flatMap((event) => (event.kind === "ticket-ended" ? [event.ticketId] : []));
  await fleet.matchmaker.tick();
  const beforeCommit = ended();
  expect(await fleet.states(ids)).toEqual(["CANCELLED", "WAITING", "WAITING"]);
  expect(beforeCommit).toEqual([cancelled]);
  await fleet.pass(2_000);
  expect(await fleet.states(ids)).toEqual(["CANCELLED", "FAILED", "FAILED"]);
  expect(ended()).toEqual([cancelled, ...late]);
});

it("a waiting ticket fails exactly after maxWaitMs, with the reason", async () => {
  await using fleet = await Fleet.open({ settings: { maxWaitMs: 60_000 } });
  const [id = ""] = await fleet.tickets(1);
  fleet.time.advance(59_999);
  await fleet.matchmaker.tick();
  expect(await fleet.states([id])).toEqual(["WAITING"]);
  fleet.time.advance(1);
  await fleet.matchmaker.tick();
  fleet.time.advance(500);
  await fleet.matchmaker.tick();
  expect(await fleet.states([id])).toEqual(["FAILED"]);
  const reason =
    "no match was found within 60000 ms; create another ticket, or widen the profile's filters (limit: maxWaitMs)";
  expect(eventsOf(fleet, "ticket-ended")).toEqual([
    { kind: "ticket-ended", ticketId: id, state: "failed", reason },
  ]);
  const { error } = await fleet.ticket(id);
  expect(error).toMatchObject({ code: Code.DeadlineExceeded, message: reason });
});

it("a ticket that no call watches or reads fails exactly after ticketLeaseMs", async () => {
  await using fleet = await Fleet.open({ settings: { ticketLeaseMs: 30_000 } });
  await fleet.tickets(1);
  const { failed } = fleet.matchmaker.counts().tickets;
  expect(failed).toBe(0);
  fleet.time.advance(29_999);
  await fleet.matchmaker.tick();
  expect(fleet.matchmaker.counts().tickets.failed).toBe(0);
  fleet.time.advance(500);
  await fleet.matchmaker.tick();
  expect(fleet.matchmaker.counts().tickets.failed).toBe(1);
  expect(eventsOf(fleet, "ticket-ended")[0]?.reason).toMatch(
    /lease of 30000 ms expired.*ticketLeaseMs/,
  );
});

it("an ended ticket is deleted after retainMs", async () => {
  await using fleet = await Fleet.open({ settings: { retainMs: 10_000 } });
  const [id = "", waiting = ""] = await fleet.tickets(2);
  await fleet.frontend.cancelTicket({ ticketId: id });
  fleet.time.advance(9_999);
  await fleet.matchmaker.tick();
  expect(await fleet.states([id])).toEqual(["CANCELLED"]);
  fleet.time.advance(500);
  await fleet.matchmaker.tick();
  await expect(fleet.ticket(id)).rejects.toThrow(/not_found/);
  expect(await fleet.states([waiting])).toEqual(["WAITING"]);
});

it.each([
  ["maxWaitMs", { maxWaitMs: 60_000 }, "WAITING", "FAILED"],
  ["ticketLeaseMs", { ticketLeaseMs: 60_000 }, "WAITING", "FAILED"],
  ["retainMs", { retainMs: 60_000 }, "CANCELLED", "deleted"],
])("%s of a ticket ends exactly on time", async (_, settings, before, after) => {
  for (const [ms, expected] of [
    [59_999, before],
    [60_000, after],
  ] as const) {
    await using fleet = await Fleet.open({ settings });
    const [id = ""] = await fleet.tickets(1);
    if (before === "CANCELLED") {
      await fleet.frontend.cancelTicket({ ticketId: id });
    }
    fleet.time.advance(ms);
    await fleet.matchmaker.tick();
    const record = (await recordsOf(fleet.store)).ticket.get(id);
    expect([ms, record?.state.toUpperCase() ?? "deleted"]).toEqual([ms, expected]);
  }
});

it("a thousand tickets that are overdue together fail in one tick, in commits of at most 500", async () => {
  const time = manualTime(startMs);
  const inner = memoryStore({ time });
  const sizes: number[] = [];
  const store: Store = {
    ...inner,
    commit(changes, options) {
      sizes.push(changes.length);
      return inner.commit(changes, options);
    },
  };
  await using fleet = await Fleet.open({
    time,
    store,
    settings: { maxWaitMs: 60_000, maxTicketsPerCaller: 10_000, maxCallsPerSecond: 10_000 },
  });
  await fleet.tickets(1_001);
  fleet.time.advance(61_000);
  await fleet.matchmaker.tick();
  expect(fleet.matchmaker.counts().tickets).toMatchObject({ waiting: 0, failed: 1_001 });
  expect(eventsOf(fleet, "ticket-ended")).toHaveLength(1_001);
  expect(sizes.filter((size) => size > 1)).toEqual([500, 500]);
});

describe.each(storeKinds)("maxWaitMs, in $name,", ({ isHere, createData }) => {
  it.skipIf(!isHere)(
    "starts anew for tickets that played and lost their server, and the next leader knows when",
    async () => {
      await using data = await createData();
      const settings = { leaderLeaseMs: 60_000, maxWaitMs: 120_000 };
      await using fleet = await fleetOn(data, { settings });
      await fleet.serve("a");
      const ids = await fleet.tickets(2);
      await fleet.settle();
      await fleet.joinAll(ids);
      await fleet.pass(122_000, 10_000);
      expect(await fleet.states(ids)).toEqual(["JOINED", "JOINED"]);
      await fleet.registry.deregisterServer({ serverId: "a" });
      fleet.time.advance(500);
      await fleet.settle();
      expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
      await fleet.matchmaker.close();
      await data.pass(60_000);

      await using next = await fleetOn(data, { settings, servers: fleet.servers });
      next.time.advance(59_999);
      await next.settle();
      expect(await next.states(ids)).toEqual(["WAITING", "WAITING"]);
      expect(next.matchmaker.isLeading).toBe(true);
      next.time.advance(500);
      await next.settle();
      expect(await next.states(ids)).toEqual(["FAILED", "FAILED"]);
    },
  );
});

it("tickets that played for longer than maxWaitMs and lost their server are matched again", async () => {
  await using fleet = await Fleet.open();
  await fleet.serve("a");
  const ids = await fleet.tickets(2);
  await fleet.settle();
  await fleet.joinAll(ids);
  await fleet.pass(620_000, 10_000);
  await fleet.registry.deregisterServer({ serverId: "a" });
  fleet.servers.all.clear();
  await fleet.pass(5_000);
  await fleet.serve("b");
  await fleet.pass(1_000);
  expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
});

it("a failed create does not fail tickets that played for longer than maxWaitMs before", async () => {
  await using fleet = await Fleet.open({ settings: { maxWaitMs: 60_000 } });
  await fleet.serve("a");
  const ids = await fleet.tickets(2);
  await fleet.settle();
  await fleet.joinAll(ids);
  await fleet.pass(70_000, 10_000);
  await fleet.registry.deregisterServer({ serverId: "a" });
  fleet.servers.all.clear();
  const b = await fleet.serve("b");
  b.createErrors.push(new DmEnvRpcError("INTERNAL", "no memory"));
  await fleet.pass(10_000);
  expect(eventsOf(fleet, "world-failed")).toHaveLength(1);
  expect(await fleet.states(ids)).toEqual(["ASSIGNED", "ASSIGNED"]);
});

it("creates that fail again and again do not prolong maxWaitMs", async () => {
  await using fleet = await Fleet.open({ settings: { maxWaitMs: 60_000 } });
  const server = await fleet.serve("a");
  const full = () => new DmEnvRpcError("RESOURCE_EXHAUSTED", "the server is full");
  server.createErrors.push(...Array.from({ length: 1_000 }, full));
  const ids = await fleet.tickets(2);
  await fleet.pass(59_000);
  expect(await fleet.states(ids)).not.toContain("FAILED");
  expect(eventsOf(fleet, "world-failed").length).toBeGreaterThan(2);
  await fleet.pass(35_000);
  expect(await fleet.states(ids)).toEqual(["FAILED", "FAILED"]);
  expect((await fleet.ticket(ids[0] ?? "")).error?.message).toMatch(/limit: maxWaitMs/);
});

it("maxWaitMs of a record without waitingSinceMs is measured from the ticket's creation", async () => {
  const time = manualTime(startMs);
  const store = memoryStore({ time });
  const old = waitingTicket("old", { createdMs: startMs - 59_999 });
  const again = waitingTicket("again", { createdMs: startMs - 59_999, waitingSinceMs: startMs });
  await store.commit(
    [old, again].map((value) => ({ kind: "ticket" as const, id: value.id, version: 0, value })),
  );
  await using fleet = await Fleet.open({ time, store, settings: { maxWaitMs: 60_000 } });
  await fleet.matchmaker.tick();
  expect(await fleet.states(["old", "again"])).toEqual(["WAITING", "WAITING"]);
  time.advance(500);
  await fleet.matchmaker.tick();
  expect(await fleet.states(["old", "again"])).toEqual(["FAILED", "WAITING"]);
});
