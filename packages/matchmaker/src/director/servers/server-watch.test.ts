// SPDX-License-Identifier: Apache-2.0
import { Code } from "@connectrpc/connect";
import { LostPolicy } from "@dm-env-rpc/protocol/matchmaker";
import { describe, expect, it } from "vitest";
import { callsOf, eventsOf, Fleet, profile } from "../../../testing/fleet.ts";
import { recordsOf } from "../../../testing/invariants.ts";

it("a matchmaker that stood still for longer than any lease does not mark its servers as lost", async () => {
  await using fleet = await Fleet.open();
  const server = await fleet.serve("a");
  const ids = await fleet.tickets(2);
  await fleet.settle();
  await fleet.joinAll(ids);
  await fleet.pass(1_000);
  fleet.time.advance(600_000);
  // The matchmaker checks for silence before it reads the pending report.
  await fleet.settle();
  await fleet.report(server);
  await fleet.pass(1_000);
  expect(fleet.events.map(({ kind }) => kind)).not.toContain("server-lost");
  expect(await fleet.states(ids)).toEqual(["JOINED", "JOINED"]);
});

it("a server that was silent before and after a standstill is lost after its lease, not counting the standstill", async () => {
  await using fleet = await Fleet.open({ settings: { serverLeaseMs: 15_000 } });
  await fleet.serve("a");
  await fleet.settle();
  const isLost = (): boolean => fleet.events.some(({ kind }) => kind === "server-lost");
  const watch = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 1_000) {
      fleet.time.advance(1_000);
      await fleet.settle(1);
    }
  };
  await watch(8_000);
  fleet.time.advance(600_000);
  await watch(1_000);
  expect(isLost()).toBe(false);
  await watch(2_000);
  expect(isLost()).toBe(true);
});

describe("a silent server", () => {
  const settings = { serverLeaseMs: 15_000, lostServerMs: 30_000, awayMs: 10_000 };

  /** Opens a match of two on server "a", which then stops reporting. */
  async function silent(profiles = [profile()]) {
    const fleet = await Fleet.open({ settings, profiles });
    const server = await fleet.serve("a");
    const ids = await fleet.tickets(2);
    await fleet.settle();
    await fleet.join(ids[0] ?? "");
    await fleet.report(server);
    await fleet.settle();
    // The lease starts when the matchmaker reads the report.
    fleet.time.advance(500);
    await fleet.matchmaker.tick();
    const wait = async (ms: number): Promise<void> => {
      for (let left = ms; left > 0; left -= 1_000) {
        fleet.time.advance(Math.min(left, 1_000));
        await fleet.matchmaker.tick();
      }
    };
    return { fleet, server, ids, wait, [Symbol.asyncDispose]: () => fleet[Symbol.asyncDispose]() };
  }

  it("is lost after serverLeaseMs, and is removed with its worlds another lostServerMs later", async () => {
    await using scene = await silent();
    const { fleet, ids, wait } = scene;
    await wait(14_000);
    expect(eventsOf(fleet, "server-lost")).toEqual([]);
    await wait(1_000);
    expect(eventsOf(fleet, "server-lost")).toEqual([{ kind: "server-lost", serverId: "a" }]);
    expect(await fleet.states(ids)).toEqual(["JOINED", "ASSIGNED"]);
    await wait(29_000);
    expect(eventsOf(fleet, "server-gone")).toEqual([]);
    expect(await fleet.states(ids)).toEqual(["JOINED", "ASSIGNED"]);
    await wait(1_000);
    expect(eventsOf(fleet, "server-gone")).toEqual([{ kind: "server-gone", serverId: "a" }]);
    expect(callsOf(fleet, "forget")).toEqual(["forget a"]);
    expect(await fleet.states(ids)).toEqual(["WAITING", "WAITING"]);
    const { error } = await fleet.ticket(ids[0] ?? "");
    expect(error).toMatchObject({
      code: Code.Unavailable,
      message: "the server of the match is gone, and its worlds with it",
    });
    const { server, report, world, match } = await recordsOf(fleet.store);
    expect([server.size, report.size, world.size, match.size]).toEqual([0, 0, 0, 0]);
    expect(eventsOf(fleet, "server-lost")).toHaveLength(1);
  });

  it("that is removed fails its tickets if their profile has LostPolicy.FAIL", async () => {
    await using scene = await silent([profile({ lostPolicy: LostPolicy.FAIL })]);
    const { fleet, ids, wait } = scene;
    await wait(47_000);
    expect(await fleet.states(ids)).toEqual(["FAILED", "FAILED"]);
    const { error } = await fleet.ticket(ids[0] ?? "");
    expect(error).toMatchObject({ code: Code.Unavailable });
  });

  it("that registers again in time keeps its worlds", async () => {
    await using scene = await silent();
    const { fleet, server, ids, wait } = scene;
    await wait(40_000);
    await fleet.register(server);
    await wait(14_000);
    expect(eventsOf(fleet, "server-lost")).toHaveLength(1);
    expect(eventsOf(fleet, "server-gone")).toEqual([]);
    expect(await fleet.states(ids)).toEqual(["JOINED", "FAILED"]);
    expect(callsOf(fleet, "forget")).toEqual([]);
    // Its lease has started again.
    await wait(2_000);
    expect(eventsOf(fleet, "server-lost")).toHaveLength(2);
  });
});

it("all worlds of a deregistered server end, however many there are", async () => {
  await using fleet = await Fleet.open({ profiles: [profile({ count: 1 })] });
  await fleet.serve("a", { maxWorlds: 1_000, maxAgents: 1_000 });
  const ids = await fleet.tickets(120);
  await fleet.settle();
  expect(fleet.matchmaker.counts().worlds).toBe(120);
  await fleet.registry.deregisterServer({ serverId: "a" });
  await fleet.matchmaker.tick();
  fleet.time.advance(500);
  await fleet.matchmaker.tick();
  expect(fleet.matchmaker.counts()).toMatchObject({ worlds: 0, matches: 0, servers: 0 });
  expect(new Set(await fleet.states(ids))).toEqual(new Set(["WAITING"]));
  expect(eventsOf(fleet, "server-gone")).toHaveLength(1);
  expect(eventsOf(fleet, "step-failed")).toEqual([]);
});

it("a server that registers under the id of a server that is gone has a whole lease", async () => {
  await using fleet = await Fleet.open({ settings: { serverLeaseMs: 15_000, tickMs: 500 } });
  const server = await fleet.serve("a");
  await fleet.settle();
  for (let passed = 0; passed < 10_000; passed += 1_000) {
    fleet.time.advance(1_000);
    await fleet.matchmaker.tick();
  }
  await fleet.registry.deregisterServer({ serverId: "a" });
  fleet.time.advance(1_000);
  await fleet.matchmaker.tick();
  expect(eventsOf(fleet, "server-gone")).toHaveLength(1);
  await fleet.register(server);
  for (let passed = 0; passed < 14_000; passed += 1_000) {
    fleet.time.advance(1_000);
    await fleet.matchmaker.tick();
  }
  expect(eventsOf(fleet, "server-lost")).toEqual([]);
  fleet.time.advance(2_000);
  await fleet.matchmaker.tick();
  expect(eventsOf(fleet, "server-lost")).toHaveLength(1);
});
