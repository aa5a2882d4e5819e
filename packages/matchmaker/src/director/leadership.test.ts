// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { expect, it } from "vitest";
import { Fleet } from "../../testing/fleet.ts";
import { startMs } from "../../testing/start-ms.ts";
import { storeWithOutage, wrappedStore } from "../../testing/wrapped-stores.ts";
import { memoryStore } from "../store/memory-store.ts";
import type { Store } from "../store/store.ts";
import { Leadership } from "./leadership.ts";

/** Wraps a store, and counts the renewals of leases. */
function countRenewals(inner: Store) {
  let renewals = 0;
  const store = wrappedStore(inner, (run, { name }) => {
    renewals += name === "renew" ? 1 : 0;
    return run();
  });
  return { store, renewals: () => renewals };
}

it("a matchmaker reports that it leads from its first tick until its lease expires", async () => {
  await using fleet = await Fleet.open({ settings: { leaderLeaseMs: 6_000 } });
  expect(fleet.matchmaker.isLeading).toBe(false);
  await fleet.matchmaker.tick();
  expect(fleet.matchmaker.isLeading).toBe(true);
  fleet.time.advance(5_999);
  expect(fleet.matchmaker.isLeading).toBe(true);
  fleet.time.advance(1);
  expect(fleet.matchmaker.isLeading).toBe(false);
  await fleet.matchmaker.tick();
  expect(fleet.matchmaker.isLeading).toBe(true);
});

it("a lease is renewed after exactly a third of its time", async () => {
  const time = manualTime(startMs);
  const counted = countRenewals(memoryStore({ time }));
  const leadership = new Leadership(counted.store, time, 6_000);
  expect(await leadership.hold()).toBe(true);
  const { lease } = leadership;
  time.advance(1_999);
  expect(await leadership.hold()).toBe(true);
  expect(counted.renewals()).toBe(0);
  time.advance(1);
  expect(await leadership.hold()).toBe(true);
  expect(counted.renewals()).toBe(1);
  expect(leadership.lease).toEqual(lease);
  time.advance(5_999);
  expect(leadership.isHeld).toBe(true);
});

it("another process can acquire a released lease immediately, and the holder can acquire an expired lease again", async () => {
  const time = manualTime(startMs);
  const store = memoryStore({ time });
  const [first, second] = [0, 1].map(() => new Leadership(store, time, 6_000));
  expect(await first?.hold()).toBe(true);
  expect(await second?.hold()).toBe(false);
  expect(second?.isHeld).toBe(false);
  await first?.release();
  expect(first?.lease).toBeUndefined();
  expect(await second?.hold()).toBe(true);
  const before = second?.lease;
  time.advance(6_000);
  expect(await second?.hold()).toBe(true);
  expect(second?.lease?.epoch).not.toBe(before?.epoch);
  expect(second?.isHeld).toBe(true);
  second?.lose();
  expect(second?.isHeld).toBe(false);
});

it("a lease is renewed independently of other work, until it is lost or the signal aborts", async () => {
  const time = manualTime(startMs);
  const store = memoryStore({ time });
  const { store: fragile, outage } = storeWithOutage(store, "renew");
  const counted = countRenewals(fragile);
  const leadership = new Leadership(counted.store, time, 6_000);
  const ending = new AbortController();
  const keeping = leadership.keep(ending.signal);
  const pass = async (ms: number): Promise<void> => {
    time.advance(ms);
    await setImmediate();
  };
  // The lease has not been acquired yet.
  await pass(2_000);
  expect(counted.renewals()).toBe(0);
  expect(await leadership.hold()).toBe(true);
  for (let times = 1; times <= 6; times++) {
    await pass(2_000);
    expect(counted.renewals()).toBe(times);
    expect(leadership.isHeld).toBe(true);
  }
  outage.isOn = true;
  await pass(2_000);
  expect(leadership.lease).toBeDefined();
  outage.isOn = false;
  await pass(2_000);
  expect(leadership.isHeld).toBe(true);
  if (leadership.lease !== undefined) {
    await store.release(leadership.lease);
  }
  await pass(2_000);
  expect(leadership.lease).toBeUndefined();
  expect(leadership.isHeld).toBe(false);
  ending.abort();
  await keeping;
  const before = counted.renewals();
  await pass(10_000);
  expect(counted.renewals()).toBe(before);
});
