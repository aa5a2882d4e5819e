// SPDX-License-Identifier: Apache-2.0
import { Code } from "@connectrpc/connect";
import { LostPolicy } from "@dm-env-rpc/protocol/matchmaker";
import { describe, expect, it } from "vitest";
import { callsOf, eventsOf, House, profile } from "../../../testing/house.ts";
import { recordsOf } from "../../../testing/invariants.ts";

it("a matchmaker that stood still for longer than any lease does not mark its servers as lost", async () => {
  await using house = await House.open();
  const server = await house.serve("a");
  const ids = await house.tickets(2);
  await house.settle();
  await house.joinAll(ids);
  await house.pass(1_000);
  house.time.advance(600_000);
  // The matchmaker checks for silence before it reads the pending report.
  await house.settle();
  await house.report(server);
  await house.pass(1_000);
  expect(house.events.map(({ kind }) => kind)).not.toContain("server-lost");
  expect(await house.states(ids)).toEqual(["JOINED", "JOINED"]);
});

it("a server that was silent before and after a standstill is lost after its lease, not counting the standstill", async () => {
  await using house = await House.open({ settings: { serverLeaseMs: 15_000 } });
  await house.serve("a");
  await house.settle();
  const isLost = (): boolean => house.events.some(({ kind }) => kind === "server-lost");
  const watch = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 1_000) {
      house.time.advance(1_000);
      await house.settle(1);
    }
  };
  await watch(8_000);
  house.time.advance(600_000);
  await watch(1_000);
  expect(isLost()).toBe(false);
  await watch(2_000);
  expect(isLost()).toBe(true);
});

describe("a silent server", () => {
  const settings = { serverLeaseMs: 15_000, lostServerMs: 30_000, awayMs: 10_000 };

  /** Opens a match of two on server "a", which then stops reporting. */
  async function silent(profiles = [profile()]) {
    const house = await House.open({ settings, profiles });
    const server = await house.serve("a");
    const ids = await house.tickets(2);
    await house.settle();
    await house.join(ids[0] ?? "");
    await house.report(server);
    await house.settle();
    // The lease starts when the matchmaker reads the report.
    house.time.advance(500);
    await house.matchmaker.tick();
    const wait = async (ms: number): Promise<void> => {
      for (let left = ms; left > 0; left -= 1_000) {
        house.time.advance(Math.min(left, 1_000));
        await house.matchmaker.tick();
      }
    };
    return { house, server, ids, wait, [Symbol.asyncDispose]: () => house[Symbol.asyncDispose]() };
  }

  it("is lost after serverLeaseMs, and removed with its worlds after lostServerMs more", async () => {
    await using scene = await silent();
    const { house, ids, wait } = scene;
    await wait(14_000);
    expect(eventsOf(house, "server-lost")).toEqual([]);
    await wait(1_000);
    expect(eventsOf(house, "server-lost")).toEqual([{ kind: "server-lost", serverId: "a" }]);
    expect(await house.states(ids)).toEqual(["JOINED", "ASSIGNED"]);
    await wait(29_000);
    expect(eventsOf(house, "server-gone")).toEqual([]);
    expect(await house.states(ids)).toEqual(["JOINED", "ASSIGNED"]);
    await wait(1_000);
    expect(eventsOf(house, "server-gone")).toEqual([{ kind: "server-gone", serverId: "a" }]);
    expect(callsOf(house, "forget")).toEqual(["forget a"]);
    expect(await house.states(ids)).toEqual(["WAITING", "WAITING"]);
    const { error } = await house.ticket(ids[0] ?? "");
    expect(error).toMatchObject({
      code: Code.Unavailable,
      message: "the server at a.test:1 is gone, and its worlds with it",
    });
    const { server, report, world, match } = await recordsOf(house.store);
    expect([server.size, report.size, world.size, match.size]).toEqual([0, 0, 0, 0]);
    expect(eventsOf(house, "server-lost")).toHaveLength(1);
  });

  it("that is removed fails its tickets if their profile has LostPolicy.FAIL", async () => {
    await using scene = await silent([profile({ lostPolicy: LostPolicy.FAIL })]);
    const { house, ids, wait } = scene;
    await wait(47_000);
    expect(await house.states(ids)).toEqual(["FAILED", "FAILED"]);
    const { error } = await house.ticket(ids[0] ?? "");
    expect(error).toMatchObject({ code: Code.Unavailable });
  });

  it("that registers again in time keeps its worlds", async () => {
    await using scene = await silent();
    const { house, server, ids, wait } = scene;
    await wait(40_000);
    await house.register(server);
    await wait(14_000);
    expect(eventsOf(house, "server-lost")).toHaveLength(1);
    expect(eventsOf(house, "server-gone")).toEqual([]);
    expect(await house.states(ids)).toEqual(["JOINED", "FAILED"]);
    expect(callsOf(house, "forget")).toEqual([]);
    // Its lease has started again.
    await wait(2_000);
    expect(eventsOf(house, "server-lost")).toHaveLength(2);
  });
});

it("all worlds of a deregistered server end, however many there are", async () => {
  await using house = await House.open({ profiles: [profile({ count: 1 })] });
  await house.serve("a", { maxWorlds: 1_000, maxAgents: 1_000 });
  const ids = await house.tickets(120);
  await house.settle();
  expect(house.matchmaker.counts().worlds).toBe(120);
  await house.registry.deregisterServer({ serverId: "a" });
  await house.matchmaker.tick();
  house.time.advance(500);
  await house.matchmaker.tick();
  expect(house.matchmaker.counts()).toMatchObject({ worlds: 0, matches: 0, servers: 0 });
  expect(new Set(await house.states(ids))).toEqual(new Set(["WAITING"]));
  expect(eventsOf(house, "server-gone")).toHaveLength(1);
  expect(eventsOf(house, "step-failed")).toEqual([]);
});

it("a server that registers under the id of a server that is gone has a whole lease", async () => {
  await using house = await House.open({ settings: { serverLeaseMs: 15_000, tickMs: 500 } });
  const server = await house.serve("a");
  await house.settle();
  for (let passed = 0; passed < 10_000; passed += 1_000) {
    house.time.advance(1_000);
    await house.matchmaker.tick();
  }
  await house.registry.deregisterServer({ serverId: "a" });
  house.time.advance(1_000);
  await house.matchmaker.tick();
  expect(eventsOf(house, "server-gone")).toHaveLength(1);
  await house.register(server);
  for (let passed = 0; passed < 14_000; passed += 1_000) {
    house.time.advance(1_000);
    await house.matchmaker.tick();
  }
  expect(eventsOf(house, "server-lost")).toEqual([]);
  house.time.advance(2_000);
  await house.matchmaker.tick();
  expect(eventsOf(house, "server-lost")).toHaveLength(1);
});
