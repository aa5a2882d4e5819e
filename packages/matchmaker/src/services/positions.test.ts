// SPDX-License-Identifier: Apache-2.0
import { fromJson } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { PoolSchema, TicketState } from "@dm-env-rpc/protocol/matchmaker";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { Fleet, profile } from "../../testing/fleet.ts";
import { startMs } from "../../testing/start-ms.ts";
import { waitingTicket } from "../../testing/waiting-ticket.ts";
import { matchmakerClient } from "../client/index.ts";
import { MatchIndex } from "../director/indexes/match-index.ts";
import type { Kind, Records, Ticket } from "../model/model.ts";
import { profileRecord } from "../profiles/profile.ts";
import { put, Replica } from "../replica/replica.ts";
import { serveMatchmaker } from "../serve-matchmaker.ts";
import { memoryStore } from "../store/memory-store.ts";
import { Positions } from "./positions.ts";

it("a waiting ticket has a position by priority and age, and other tickets have none", async () => {
  await using fleet = await Fleet.open({ profiles: [profile({ count: 9 })] });
  const [first = "", second = ""] = await fleet.tickets(2);
  const [urgent = ""] = await fleet.tickets(1, { priority: 1 });
  await fleet.frontend.cancelTicket({ ticketId: first });
  fleet.time.advance(5_000);
  const positions = await Promise.all([urgent, second, first].map((id) => fleet.ticket(id)));
  expect(positions.map(({ position }) => position)).toEqual([1, 2, 0]);
});

it("a ticket in several pools has its best position; a ticket in no pool has none", async () => {
  const pool = (tag: string) => fromJson(PoolSchema, { name: tag, tagPresentFilters: [{ tag }] });
  await using fleet = await Fleet.open({
    profiles: [profile({ count: 9, pools: [pool("red"), pool("blue")] })],
  });
  await fleet.tickets(3, { searchFields: { tags: ["red"] } });
  const [both = ""] = await fleet.tickets(1, { searchFields: { tags: ["red", "blue"] } });
  const [neither = ""] = await fleet.tickets(1);
  expect((await fleet.ticket(both)).position).toBe(1);
  expect((await fleet.ticket(neither)).position).toBe(0);
});

it("the wait is estimated from the rate of matches", async () => {
  await using fleet = await Fleet.open({ profiles: [profile({ count: 1 })] });
  const server = await fleet.serve("a", { maxWorlds: 1_000, maxAgents: 1_000 });
  // Two tickets a second are matched.
  for (let second = 0; second < 10; second++) {
    await fleet.tickets(2);
    await fleet.settle(1);
    fleet.time.advance(998);
  }
  await fleet.registry.drainServer({ serverId: server.id });
  const [, , , fourth = ""] = await fleet.tickets(4);
  const { position, estimatedWait } = await fleet.ticket(fourth);
  expect(position).toBe(4);
  expect(estimatedWait && durationMs(estimatedWait)).toBeCloseTo(2_000, -3);
});

it("a watch receives a position that has dropped by a fifth, and each change at ten or less", async () => {
  await using fleet = await Fleet.open({
    profiles: [profile({ count: 100 })],
    settings: { positionMs: 1_000 },
  });
  const ahead = await fleet.tickets(50);
  const [ticketId = ""] = await fleet.tickets(1);
  fleet.time.advance(1_000);
  const stop = new AbortController();
  const watch = fleet.frontend.watchTicket({ ticketId }, { signal: stop.signal });
  const updates = watch[Symbol.asyncIterator]();
  const told: number[] = [];
  const next = async (): Promise<void> => {
    const { value } = await updates.next();
    expect(value?.ticket?.state).toBe(TicketState.WAITING);
    told.push(value?.ticket?.position ?? 0);
  };
  const leave = async (count: number): Promise<void> => {
    for (const id of ahead.splice(0, count)) {
      await fleet.frontend.cancelTicket({ ticketId: id });
    }
    fleet.time.advance(1_000);
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
  [5, undefined, false],
  [undefined, 5, true],
  [5, 5, false],
  [11, 10, true],
  [12, 11, false],
  [20, 16, true],
  [20, 17, false],
  [20, 30, false],
  [undefined, 51, true],
])(
  "after a report of the position %s, the position %s is news: %s",
  async (reported, position, isNews) => {
    const replica = new Replica(memoryStore());
    const positions = new Positions(replica, new MatchIndex(replica, {}, () => {}), 1_000);
    expect(positions.isNews(position, reported)).toBe(isNews);
  },
);

it("the estimated rate of matches follows the actual rate slowly", async () => {
  await using fleet = await Fleet.open({
    profiles: [profile({ count: 1 })],
    settings: { positionMs: 1_000, maxCallsPerSecond: 10_000 },
  });
  await fleet.serve("a", { maxWorlds: 2 });
  const [first = ""] = await fleet.tickets(1, { priority: -1 });
  const waitOf = async (): Promise<[number, number | undefined]> => {
    const { position, estimatedWait } = await fleet.ticket(first);
    return [position, estimatedWait && durationMs(estimatedWait)];
  };
  fleet.time.advance(1_000);
  expect(await waitOf()).toEqual([1, undefined]);
  const pass = async (servers: string, worlds: number): Promise<void> => {
    const beganMs = fleet.time.now();
    await fleet.serve(servers, { maxWorlds: worlds });
    await fleet.tickets(worlds);
    await fleet.settle(1);
    fleet.time.advance(1_000 - (fleet.time.now() - beganMs));
  };
  // Server "a" would take the observed ticket, which must stay waiting.
  await fleet.registry.drainServer({ serverId: "a" });
  await pass("b", 4);
  expect(await waitOf()).toEqual([1, 250]);
  await pass("c", 14);
  // 4 + 0.3 * (14 - 4) tickets a second.
  expect(await waitOf()).toEqual([1, Math.round(1_000 / 7)]);
  fleet.time.advance(1_000);
  expect(await waitOf()).toEqual([1, Math.round(1_000 / 4.9)]);
});

describe("the positions of tickets", () => {
  /** Creates `Positions` of a replica with two profiles, and functions that write waiting and matched tickets. */
  async function open() {
    const time = manualTime(startMs);
    const replica = new Replica(memoryStore({ time }));
    const matchIndex = new MatchIndex(replica, {}, () => {});
    const positions = new Positions(replica, matchIndex, 1_000);
    const write = async <K extends Kind>(kind: K, id: string, value: Records[K]): Promise<void> => {
      await replica.commit([put(kind, id, replica.get(kind, id), value)]);
    };
    const urgent = fromJson(PoolSchema, { name: "urgent", tagPresentFilters: [{ tag: "urgent" }] });
    for (const message of [profile(), profile({ name: "urgent", pools: [urgent] })]) {
      await write("profile", message.name, profileRecord(message));
    }
    let age = 0;
    const wait = async (id: string, more: Partial<Ticket> = {}): Promise<void> => {
      age += 1;
      await write("ticket", id, waitingTicket(id, { createdMs: startMs + age, ...more }));
    };
    /** Creates and matches tickets. */
    const match = async (count: number, matchId = "any"): Promise<void> => {
      for (let each = 0; each < count; each++) {
        const id = `matched-${age}`;
        await wait(id);
        await write("ticket", id, waitingTicket(id, { state: "matched", matchId }));
      }
    };
    for (const name of ["any", "urgent"]) {
      await write("match", name, {
        id: name,
        profile: name,
        worldId: "",
        serverId: "",
        state: "placed",
        teams: [],
        vacancies: [],
        createdMs: startMs,
      });
    }
    const of = (id: string) => {
      const ticket = replica.get("ticket", id)?.value;
      return ticket && positions.of(ticket);
    };
    return { time, positions, write, wait, match, of };
  }

  it("follow a change once the copy of the pool is positionMs old", async () => {
    const { time, wait, write, of } = await open();
    await wait("first");
    await wait("second");
    expect(of("second")?.position).toBe(2);
    time.advance(500);
    await write("ticket", "first", waitingTicket("first", { state: "cancelled" }));
    expect(of("second")?.position).toBe(2);
    time.advance(499);
    expect(of("second")?.position).toBe(2);
    time.advance(1);
    expect(of("second")?.position).toBe(1);
  });

  it("are the best among the ticket's pools, and the wait is estimated at the rate of that pool's profile", async () => {
    const { time, wait, match, of } = await open();
    const tagged = { search: { doubles: {}, strings: {}, tags: ["urgent"] } };
    await wait("first");
    await wait("urgent", tagged);
    await wait("other", { ...tagged, profile: "urgent", priority: 1 });
    await wait("last", { ...tagged, profile: "any" });
    await match(8, "any");
    await match(2, "urgent");
    time.advance(1_000);
    expect(of("first")).toEqual({ position: 1, estimatedWaitMs: 125 });
    expect(of("urgent")).toEqual({ position: 2, estimatedWaitMs: 250 });
    expect(of("other")).toEqual({ position: 1, estimatedWaitMs: 500 });
    expect(of("last")).toEqual({ position: 3, estimatedWaitMs: 375 });
  });

  it("estimate the wait only from tickets that have gone from waiting to a match", async () => {
    const { time, wait, write, match, of } = await open();
    await wait("observed", { priority: -1 });
    await match(3, "unknown");
    await wait("failed");
    await write("ticket", "failed", waitingTicket("failed", { state: "failed" }));
    const joined = waitingTicket("joined", { state: "assigned", matchId: "any" });
    await write("ticket", "joined", joined);
    await write("ticket", "joined", { ...joined, state: "joined" });
    time.advance(1_000);
    expect(of("observed")).toEqual({ position: 1, estimatedWaitMs: undefined });
  });

  it("use a rate that is measured once per positionMs, over the time since the last measurement", async () => {
    const { time, wait, match, of } = await open();
    await wait("observed", { priority: -1 });
    await match(6);
    time.advance(999);
    expect(of("observed")?.estimatedWaitMs).toBeUndefined();
    time.advance(1_001);
    // 6 tickets in 2 s.
    expect(of("observed")?.estimatedWaitMs).toBeCloseTo(1_000 / 3);
    await match(10);
    time.advance(999);
    expect(of("observed")?.estimatedWaitMs).toBeCloseTo(1_000 / 3);
    time.advance(1);
    // 3 + 0.3 * (10 - 3) tickets a second.
    expect(of("observed")?.estimatedWaitMs).toBeCloseTo(1_000 / 5.1);
  });

  it("lose their estimated wait when no ticket has been matched for long", async () => {
    const { time, wait, match, of } = await open();
    await wait("observed", { priority: -1 });
    const waitAfter = (seconds: number) => {
      for (let second = 0; second < seconds; second++) {
        time.advance(1_000);
        of("observed");
      }
      return of("observed")?.estimatedWaitMs;
    };
    await match(10);
    // The rate falls to 0.7 of itself each second: 10 * 0.7 ** 25 is above a thousandth, 0.7 ** 26 below.
    expect(waitAfter(26)).toBeCloseTo(1_000 / (10 * 0.7 ** 25));
    expect(waitAfter(1)).toBeUndefined();
    await match(4);
    expect(waitAfter(1)).toBe(250);
  });

  it("ignore matches after close()", async () => {
    const { time, positions, wait, match, of } = await open();
    await wait("observed", { priority: -1 });
    positions.close();
    await match(5);
    time.advance(1_000);
    expect(of("observed")).toEqual({ position: 1, estimatedWaitMs: undefined });
  });
});
