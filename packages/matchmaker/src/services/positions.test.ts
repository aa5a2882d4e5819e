// SPDX-License-Identifier: Apache-2.0
import { fromJson } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { PoolSchema, TicketState } from "@dm-env-rpc/protocol/matchmaker";
import { expect, it } from "vitest";
import { House, profile } from "../../testing/house.ts";
import { matchmakerClient } from "../client/index.ts";
import { MatchIndex } from "../director/indexes/match-index.ts";
import { Replica } from "../replica.ts";
import { serveMatchmaker } from "../serve-matchmaker.ts";
import { memoryStore } from "../store/memory-store.ts";
import { Positions } from "./positions.ts";

it("a waiting ticket has a position by priority and age, and other tickets have none", async () => {
  await using house = await House.open({ profiles: [profile({ count: 9 })] });
  const [first = "", second = ""] = await house.tickets(2);
  const [urgent = ""] = await house.tickets(1, { priority: 1 });
  await house.frontend.cancelTicket({ ticketId: first });
  house.time.advance(5_000);
  const positions = await Promise.all([urgent, second, first].map((id) => house.ticket(id)));
  expect(positions.map(({ position }) => position)).toEqual([1, 2, 0]);
});

it("a ticket in several pools has its best position; a ticket in no pool has none", async () => {
  const pool = (tag: string) => fromJson(PoolSchema, { name: tag, tagPresentFilters: [{ tag }] });
  await using house = await House.open({
    profiles: [profile({ count: 9, pools: [pool("red"), pool("blue")] })],
  });
  await house.tickets(3, { searchFields: { tags: ["red"] } });
  const [both = ""] = await house.tickets(1, { searchFields: { tags: ["red", "blue"] } });
  const [neither = ""] = await house.tickets(1);
  expect((await house.ticket(both)).position).toBe(1);
  expect((await house.ticket(neither)).position).toBe(0);
});

it("the wait is estimated from the rate of matches", async () => {
  await using house = await House.open({ profiles: [profile({ count: 1 })] });
  const server = await house.serve("a", { maxWorlds: 1_000, maxAgents: 1_000 });
  // Two tickets a second are matched.
  for (let second = 0; second < 10; second++) {
    await house.tickets(2);
    await house.settle(1);
    house.time.advance(998);
  }
  await house.registry.drainServer({ serverId: server.id });
  const [, , , fourth = ""] = await house.tickets(4);
  const { position, estimatedWait } = await house.ticket(fourth);
  expect(position).toBe(4);
  expect(estimatedWait && durationMs(estimatedWait)).toBeCloseTo(2_000, -3);
});

it("a watch receives a position that has dropped by a fifth, and each change at ten or less", async () => {
  await using house = await House.open({
    profiles: [profile({ count: 100 })],
    settings: { positionMs: 1_000 },
  });
  const ahead = await house.tickets(50);
  const [ticketId = ""] = await house.tickets(1);
  house.time.advance(1_000);
  const stop = new AbortController();
  const watch = house.frontend.watchTicket({ ticketId }, { signal: stop.signal });
  const updates = watch[Symbol.asyncIterator]();
  const told: number[] = [];
  const next = async (): Promise<void> => {
    const { value } = await updates.next();
    expect(value?.ticket?.state).toBe(TicketState.WAITING);
    told.push(value?.ticket?.position ?? 0);
  };
  const leave = async (count: number): Promise<void> => {
    for (const id of ahead.splice(0, count)) {
      await house.frontend.cancelTicket({ ticketId: id });
    }
    house.time.advance(1_000);
  };
  await next();
  await leave(5);
  const later = next();
  await leave(10);
  await later;
  await leave(27);
  await next();
  await leave(1);
  await next();
  expect(told).toEqual([51, 36, 9, 8]);
  stop.abort();
  await updates.next().catch(() => {});
});

it("a client's updates over the network contain the position", async () => {
  await using served = await serveMatchmaker({
    profiles: [profile({ count: 3 })],
    settings: { positionMs: 10 },
  });
  const client = matchmakerClient(served.url, { timeoutMs: 60_000 });
  const first = client.find()[Symbol.asyncIterator]();
  await first.next();
  for await (const { state, position } of client.find()) {
    expect(state).toBe("waiting");
    if (position === 2) {
      break;
    }
  }
  await first.return?.();
});

it.each<[number | undefined, number | undefined, boolean]>([
  [undefined, undefined, false],
  [undefined, 5, false],
  [5, undefined, true],
  [5, 5, false],
  [10, 11, true],
  [11, 12, false],
  [16, 20, true],
  [17, 20, false],
  [30, 20, false],
])("the position %s is reported after the position %s: %s", async (position, reported, isNews) => {
  const replica = new Replica(memoryStore());
  const positions = new Positions(replica, new MatchIndex(replica, {}, () => {}), 1_000);
  expect(positions.isNews(position, reported)).toBe(isNews);
});

it("the rate of matches follows its changes slowly", async () => {
  await using house = await House.open({
    profiles: [profile({ count: 1 })],
    settings: { positionMs: 1_000, maxCallsPerSecond: 10_000 },
  });
  await house.serve("a", { maxWorlds: 2 });
  const [first = ""] = await house.tickets(1, { priority: -1 });
  const waitOf = async (): Promise<[number, number | undefined]> => {
    const { position, estimatedWait } = await house.ticket(first);
    return [position, estimatedWait && durationMs(estimatedWait)];
  };
  house.time.advance(1_000);
  expect(await waitOf()).toEqual([1, undefined]);
  const pass = async (servers: string, worlds: number): Promise<void> => {
    const beganMs = house.time.now();
    await house.serve(servers, { maxWorlds: worlds });
    await house.tickets(worlds);
    await house.settle(1);
    house.time.advance(1_000 - (house.time.now() - beganMs));
  };
  // Server "a" would take the observed ticket, which must stay waiting.
  await house.registry.drainServer({ serverId: "a" });
  await pass("b", 4);
  expect(await waitOf()).toEqual([1, 250]);
  await pass("c", 14);
  // 4 + 0.3 * (14 - 4) tickets a second.
  expect(await waitOf()).toEqual([1, Math.round(1_000 / 7)]);
  house.time.advance(1_000);
  expect(await waitOf()).toEqual([1, Math.round(1_000 / 4.9)]);
});
