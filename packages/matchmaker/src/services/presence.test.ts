// SPDX-License-Identifier: Apache-2.0
import type { CallOptions } from "@connectrpc/connect";
import type { Ticket } from "@dm-env-rpc/protocol/matchmaker";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { afterAll, describe, expect, it } from "vitest";
import { eventsOf, Fleet, profile } from "../../testing/fleet.ts";
import { recordsOf } from "../../testing/invariants.ts";
import { startMs } from "../../testing/start-ms.ts";
import { stopStores, storeKinds } from "../../testing/stores.ts";
import { waitingTicket } from "../../testing/waiting-ticket.ts";
import { sharedStore, storeWithOutage } from "../../testing/wrapped-stores.ts";
import type { Ticket as TicketRecord } from "../model/model.ts";
import { settingsFrom } from "../model/settings.ts";
import { put, Replica, remove } from "../replica/replica.ts";
import { memoryStore } from "../store/memory-store.ts";
import { Presence } from "./presence.ts";

afterAll(stopStores);

const settings = { ticketLeaseMs: 60_000, awayMs: 10_000 };

/** Watches a ticket until the test stops the watch. */
async function follow(fleet: Fleet, ticketId: string, options: CallOptions = {}) {
  const ending = new AbortController();
  const updates: (Ticket | undefined)[] = [];
  const watch = fleet.frontend.watchTicket({ ticketId }, { ...options, signal: ending.signal });
  const iterator = watch[Symbol.asyncIterator]();
  updates.push((await iterator.next()).value?.ticket);
  const reading = (async () => {
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
      updates.push(next.value.ticket);
    }
  })().catch(() => {});
  return {
    updates,
    async stop() {
      ending.abort();
      await reading;
      // The matchmaker notices the end of the watch in a later turn, and commits it after a delay.
      await new Promise((resolve) => setImmediate(resolve));
      await fleet.pass(1_000);
    },
  };
}

describe("a ticket whose watch has ended", () => {
  it("is not matched, keeps its place, and is matched once it is watched again", async () => {
    await using fleet = await Fleet.open({ settings });
    const [first = ""] = await fleet.tickets(1);
    const watch = await follow(fleet, first);
    await watch.stop();
    await fleet.serve("a", { maxWorlds: 1 });
    const others = await fleet.tickets(1);
    await fleet.pass(5_000);
    expect(await fleet.states(others)).toEqual(["WAITING"]);
    await follow(fleet, first);
    await fleet.pass(1_000);
    expect(await fleet.states([first, ...others])).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  it("fails after awayMs with the reason", async () => {
    await using fleet = await Fleet.open({ settings });
    const [id = ""] = await fleet.tickets(1);
    await (await follow(fleet, id)).stop();
    await fleet.pass(5_000);
    const operator = fleet.admin;
    const state = async () => (await operator.listTickets({})).tickets[0];
    expect((await state())?.error).toBeUndefined();
    await fleet.pass(6_000);
    expect((await state())?.error?.message).toMatch(
      /the ticket's watch ended.*10000 ms.*limit: awayMs/,
    );
  });

  it("is still matched while another watch of it is open", async () => {
    await using fleet = await Fleet.open({ settings });
    const [id = ""] = await fleet.tickets(1);
    const one = await follow(fleet, id);
    await follow(fleet, id);
    await one.stop();
    await fleet.pass(200_000, 5_000);
    await fleet.serve("a");
    const others = await fleet.tickets(1);
    await fleet.settle();
    expect(await fleet.states([id, ...others])).toEqual(["ASSIGNED", "ASSIGNED"]);
  });

  it("fails if its world is lost after the assignment; a watched ticket waits again", async () => {
    await using fleet = await Fleet.open({ settings });
    const [left = "", watched = ""] = await fleet.tickets(2);
    const [one] = [await follow(fleet, left), await follow(fleet, watched)];
    const server = await fleet.serve("a");
    await fleet.settle();
    await one.stop();
    // A read while the ticket is assigned does not renew its lease.
    await fleet.ticket(left);
    server.isUp = false;
    await fleet.pass(60_000);
    const { tickets } = await fleet.admin.listTickets({});
    const reasons = new Map(tickets.map(({ id, error }) => [id, error?.message]));
    expect(reasons.get(left)).toMatch(/the ticket's watch ended/);
    expect(reasons.get(watched)).toMatch(/the server of the match is gone/);
  });
});

describe("a ticket without a watch", () => {
  it("fails if it is not read within its lease, and waits while its creator reads it", async () => {
    await using fleet = await Fleet.open({ settings: { ...settings, maxWaitMs: 3_600_000 } });
    const [forgotten = "", polled = ""] = await fleet.tickets(2, { profile: "any" });
    // Without a profile, the two tickets cannot be matched with each other.
    await fleet.admin.deleteProfile({ name: "any" });
    for (let minute = 0; minute < 5; minute++) {
      await fleet.pass(50_000, 5_000);
      await fleet.frontend.getTicket({ ticketId: polled });
    }
    const { tickets } = await fleet.admin.listTickets({});
    const reasons = new Map(tickets.map(({ id, error }) => [id, error?.message]));
    expect(reasons.get(forgotten)).toMatch(
      /the ticket's lease of 60000 ms expired.*limit: ticketLeaseMs/,
    );
    expect(reasons.get(polled)).toBeUndefined();
  });

  it("is not kept alive by an operator that reads it", async () => {
    await using fleet = await Fleet.open({
      settings,
      authorize: ({ metadata }) => ({
        identity: metadata.get("name"),
        roles: metadata.has("name") ? ["agent"] : ["agent", "operator"],
      }),
    });
    const [id = ""] = await fleet.tickets(1);
    await follow(fleet, id);
    for (let count = 0; count < 10; count++) {
      await fleet.pass(10_000, 5_000);
      await fleet.frontend.getTicket({ ticketId: id });
    }
    expect(await fleet.states([id])).toEqual(["FAILED"]);
  });
});

describe.each(storeKinds.filter(({ isHere }) => isHere))("with a store in $name,", (kind) => {
  it("a watch that moves to another matchmaker keeps its ticket waiting", async () => {
    await using data = await kind.createData();
    const [one, two] = [
      await Fleet.open({ time: data.time, store: await data.open(), settings }),
      await Fleet.open({ time: data.time, store: await data.open(), settings }),
    ];
    await using _one = one;
    await using _two = two;
    const [id = ""] = await one.tickets(1);
    const watch = await follow(one, id);
    await follow(two, id);
    await watch.stop();
    for (let count = 0; count < 30; count++) {
      await one.pass(5_000, 5_000);
      await two.settle(1);
    }
    const { tickets } = await one.admin.listTickets({});
    expect(tickets[0]?.error).toBeUndefined();
    await one.serve("a");
    await one.tickets(1);
    await one.settle();
    await two.settle();
    await one.settle();
    expect(await one.states([id])).toEqual(["ASSIGNED"]);
  });
});

it("a watched ticket leaves no timer behind when its matchmaker closes", async () => {
  const time = manualTime(startMs);
  const fleet = await Fleet.open({ time, store: memoryStore({ time }), profiles: [profile()] });
  const [id = ""] = await fleet.tickets(1);
  await follow(fleet, id);
  await fleet[Symbol.asyncDispose]();
  expect(time.timers).toBe(0);
});

/** Lets the matchmaker collect and commit the changes of followed tickets. */
async function collect(fleet: Fleet): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    fleet.time.advance(50);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const ticketOf = async ({ store }: Fleet, id: string) => (await recordsOf(store)).ticket.get(id);

describe("the record of a ticket", () => {
  it("is away only once both of its watches have ended", async () => {
    await using fleet = await Fleet.open({ settings });
    const [id = ""] = await fleet.tickets(1);
    const watches = [await follow(fleet, id), await follow(fleet, id)];
    await watches[0]?.stop();
    await collect(fleet);
    expect((await ticketOf(fleet, id))?.away).toBeUndefined();
    await watches[1]?.stop();
    await collect(fleet);
    const record = await ticketOf(fleet, id);
    expect(record?.away).toBe(true);
    expect((record?.aliveUntilMs ?? 0) - fleet.time.now()).toBeLessThanOrEqual(10_000);
  });

  it("is away only briefly if another matchmaker has a watch of the ticket", async () => {
    const time = manualTime(startMs);
    const shared = sharedStore(memoryStore({ time }));
    await using one = await Fleet.open({ time, store: shared, settings });
    await using two = await Fleet.open({ time, store: shared, settings });
    const [id = ""] = await one.tickets(1);
    const watch = await follow(one, id);
    await collect(one);
    await follow(two, id);
    await watch.stop();
    await collect(one);
    await collect(two);
    expect((await ticketOf(one, id))?.away).toBeUndefined();
  });

  it("is not written by a watch or a read that would not change it", async () => {
    await using fleet = await Fleet.open({ settings });
    const [id = ""] = await fleet.tickets(1);
    await collect(fleet);
    const written = async (): Promise<number> => {
      const { entries } = await fleet.store.changes(position, 100);
      ({ position } = await fleet.store.changes(undefined, 100));
      return entries.length;
    };
    let { position } = await fleet.store.changes(undefined, 100);
    await fleet.ticket(id);
    await collect(fleet);
    expect(await written()).toBe(0);
    fleet.time.advance(31_000);
    await fleet.ticket(id);
    await fleet.ticket(id);
    await collect(fleet);
    expect(await written()).toBe(1);
    await fleet.ticket(id);
    await collect(fleet);
    expect(await written()).toBe(0);
  });

  it("is written in batches of 200, together with those of other tickets that are read", async () => {
    await using fleet = await Fleet.open({
      settings: { ...settings, maxCallsPerSecond: 10_000 },
      profiles: [profile({ count: 10_000 })],
    });
    const ids = await fleet.tickets(450);
    fleet.time.advance(31_000);
    for (const id of ids) {
      await fleet.ticket(id);
    }
    const { position } = await fleet.store.changes(undefined, 1_000);
    await collect(fleet);
    const { entries } = await fleet.store.changes(position, 1_000);
    expect(new Set(entries.map(({ id }) => id))).toEqual(new Set(ids));
    // Each commit has a version: 200 tickets, 200 tickets, and the rest.
    expect(new Set(entries.map(({ version }) => version)).size).toBe(3);
  });

  it.each([0, 9_999, 19_999])(
    "keeps its lease while it is read once in every third of the lease, first after %i ms",
    async (firstMs) => {
      await using fleet = await Fleet.open({ settings: { ...settings, maxWaitMs: 3_600_000 } });
      const [id = ""] = await fleet.tickets(1);
      await fleet.pass(firstMs, 5_000);
      for (let reads = 0; reads < 12; reads++) {
        await fleet.ticket(id);
        await fleet.pass(20_000, 5_000);
        const { aliveUntilMs = 0 } = (await ticketOf(fleet, id)) ?? {};
        expect(aliveUntilMs - fleet.time.now()).toBeGreaterThan(9_000);
      }
      expect(await fleet.states([id])).toEqual(["WAITING"]);
    },
  );

  it("is renewed when half of its lease is over, not before", async () => {
    await using fleet = await Fleet.open({ settings });
    const [id = ""] = await fleet.tickets(1);
    const created = (await ticketOf(fleet, id))?.aliveUntilMs;
    fleet.time.advance(30_000);
    await fleet.ticket(id);
    await collect(fleet);
    expect((await ticketOf(fleet, id))?.aliveUntilMs).toBe(created);
    await fleet.ticket(id);
    await collect(fleet);
    expect((await ticketOf(fleet, id))?.aliveUntilMs).toBeGreaterThan((created ?? 0) + 30_000);
  });

  it("is renewed by a watch as long as the watch lasts, even if the ticket is not read", async () => {
    await using fleet = await Fleet.open({ settings });
    const [id = ""] = await fleet.tickets(1);
    await follow(fleet, id);
    for (let checks = 0; checks < 40; checks++) {
      fleet.time.advance(7_500);
      await collect(fleet);
      const { aliveUntilMs = 0 } = (await ticketOf(fleet, id)) ?? {};
      expect(aliveUntilMs - fleet.time.now()).toBeGreaterThan(20_000);
    }
  });

  it("is not changed when a watch ends because the ticket has ended", async () => {
    await using fleet = await Fleet.open({ settings });
    const [id = ""] = await fleet.tickets(1);
    await follow(fleet, id);
    await fleet.frontend.cancelTicket({ ticketId: id });
    const ended = await ticketOf(fleet, id);
    await collect(fleet);
    expect(await ticketOf(fleet, id)).toEqual(ended);
  });

  it("is renewed once an unavailable store is back, and the failure is reported", async () => {
    const time = manualTime(startMs);
    const { store, outage } = storeWithOutage(memoryStore({ time }), "commit");
    await using fleet = await Fleet.open({ time, store, settings });
    const [id = ""] = await fleet.tickets(1);
    fleet.time.advance(31_000);
    outage.isOn = true;
    await fleet.ticket(id);
    await collect(fleet);
    expect(eventsOf(fleet, "store-failed")[0]).toMatchObject({
      error: { message: "the store is away" },
    });
    outage.isOn = false;
    await collect(fleet);
    expect((await ticketOf(fleet, id))?.aliveUntilMs).toBeGreaterThan(startMs + 61_000);
  });
});

describe("the presence of tickets", () => {
  /** Tracks tickets "one" and "two" in a store of their own. */
  function open() {
    const time = manualTime(startMs);
    const replica = new Replica(memoryStore({ time }));
    const errors: unknown[] = [];
    const leases = settingsFrom({ ticketLeaseMs: 60_000, awayMs: 50_000 });
    const presence = new Presence(replica, leases, time, (event) => errors.push(event));
    const write = async (id: string, more: Partial<TicketRecord>): Promise<void> => {
      const before = replica.get("ticket", id);
      await replica.commit([put("ticket", id, before, waitingTicket(id, more))]);
    };
    const recordOf = (id: string) => {
      const stored = replica.get("ticket", id);
      if (stored === undefined) {
        throw new Error(`the ticket ${id} was expected`);
      }
      return stored;
    };
    /**
     * Lets changes be collected and committed. Returns the remaining lease of a ticket; undefined if its
     * record did not change.
     */
    const leaseWritten = async (id: string): Promise<number | undefined> => {
      const { version } = recordOf(id);
      time.advance(50);
      await new Promise((resolve) => setImmediate(resolve));
      const { value, version: latest } = recordOf(id);
      return latest === version ? undefined : (value.aliveUntilMs ?? 0) - time.now();
    };
    const soon = { aliveUntilMs: startMs + 1_000 };
    const late = { aliveUntilMs: startMs + 50_000 };
    return { time, replica, presence, errors, write, recordOf, leaseWritten, soon, late };
  }

  it("leaves a ticket as it is while the ticket is neither watched nor read", async () => {
    const { presence, write, leaseWritten, soon } = open();
    presence.watch("other");
    await write("one", soon);
    expect(await leaseWritten("one")).toBeUndefined();
  });

  it("is not written after close(), even if tickets are due", async () => {
    const { time, presence, replica, write, recordOf, soon } = open();
    const ids = Array.from({ length: 201 }, (_, index) => `ticket-${index}`);
    for (const id of ids) {
      await write(id, soon);
      presence.read(recordOf(id).value);
    }
    time.advance(50);
    // The first commit, of 200 tickets, is under way.
    await presence.close();
    const renewed = ids.filter((id) => recordOf(id).value.aliveUntilMs !== soon.aliveUntilMs);
    expect(renewed.length).toBeLessThanOrEqual(200);
    expect(replica.get("ticket", "ticket-200")?.value).toMatchObject(soon);
    expect(time.timers).toBe(0);
  });

  it("ends the absence of a ticket as soon as it is watched, however long its lease lasts", async () => {
    const { presence, write, recordOf, leaseWritten, late } = open();
    await write("one", { ...late, away: true });
    presence.watch("one");
    expect(await leaseWritten("one")).toBe(60_000);
    expect(recordOf("one").value.away).toBeUndefined();
  });

  it("leaves a ticket away if its new watch ends at once", async () => {
    const { presence, write, leaseWritten, late } = open();
    await write("one", { ...late, away: true });
    presence.watch("one")();
    expect(await leaseWritten("one")).toBeUndefined();
  });

  it("renews a ticket that was read before its watch ended", async () => {
    const { presence, write, recordOf, leaseWritten, soon } = open();
    await write("one", soon);
    presence.read(recordOf("one").value);
    presence.watch("one")();
    expect(await leaseWritten("one")).toBe(60_000);
    expect(recordOf("one").value.away).toBeUndefined();
  });

  it("renews a ticket once for each read, not again when another ticket is read", async () => {
    const { time, presence, write, recordOf, leaseWritten, soon } = open();
    await write("one", soon);
    presence.read(recordOf("one").value);
    expect(await leaseWritten("one")).toBe(60_000);
    time.advance(40_000);
    await write("two", soon);
    presence.read(recordOf("two").value);
    expect(await leaseWritten("one")).toBeUndefined();
  });

  it("does not write a ticket that another matchmaker has renewed in the meantime", async () => {
    const { presence, write, recordOf, leaseWritten, soon, late } = open();
    await write("one", soon);
    presence.read(recordOf("one").value);
    await write("one", late);
    expect(await leaseWritten("one")).toBeUndefined();
  });

  it("does not renew the lease of a watched ticket that is in a match", async () => {
    const { time, presence, write, leaseWritten, soon } = open();
    await write("one", { ...soon, state: "assigned" });
    presence.watch("one");
    expect(await leaseWritten("one")).toBeUndefined();
    time.advance(60_000);
    expect(await leaseWritten("one")).toBeUndefined();
  });

  it("does nothing for a watched ticket that is unknown or deleted", async () => {
    const { time, replica, presence, errors, write, recordOf, soon } = open();
    presence.watch("unknown");
    await write("one", soon);
    presence.watch("one");
    await replica.commit([remove("ticket", "one", recordOf("one"))]);
    for (let count = 0; count < 20; count++) {
      time.advance(10_000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(replica.get("ticket", "one")).toBeUndefined();
    expect(errors).toEqual([]);
  });
});
