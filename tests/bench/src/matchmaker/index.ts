// SPDX-License-Identifier: Apache-2.0
import { memoryStore, type Store } from "@dm-env-rpc/matchmaker";
import { redisStore } from "@dm-env-rpc/matchmaker/redis";
import { short, textTable } from "../harness/table.ts";
import { startRedis } from "./redis.ts";
import { type MatchmakingRun, matchmake } from "./run.ts";

/** One row of the matchmaker's table. */
export interface MatchmakerRow extends MatchmakingRun {
  readonly store: "memory" | "Redis";
  /** Whether the tickets came one after the other, or all waited when the servers came. */
  readonly when: "arriving" | "waiting";
}

/**
 * Measures the matchmaker: 10,000 tickets that arrive, and how it takes from 1,000 to 100,000 that wait, in
 * groups of 4 over 20 simulated servers, with its state in memory and, where there is a redis-server, in Redis.
 */
export async function benchMatchmaker(options: {
  readonly quick: boolean;
}): Promise<{ readonly title: string; readonly rows: readonly MatchmakerRow[] }> {
  const arriving = options.quick ? 2_000 : 10_000;
  const waiting = options.quick ? [1_000, 4_000] : [1_000, 10_000, 100_000];
  const rows: MatchmakerRow[] = [];
  const run = async (
    store: MatchmakerRow["store"],
    open: () => Promise<Store>,
    tickets: number,
    when: MatchmakerRow["when"],
  ): Promise<void> => {
    rows.push({ store, when, ...(await matchmake(await open(), tickets, when)) });
  };
  const runAll = async (
    store: MatchmakerRow["store"],
    open: () => Promise<Store>,
  ): Promise<void> => {
    // Until the compiler has seen enough.
    await matchmake(await open(), 1_000, "arriving");
    await run(store, open, arriving, "arriving");
    for (const tickets of waiting) await run(store, open, tickets, "waiting");
  };
  await runAll("memory", async () => memoryStore());
  await using redis = await startRedis();
  if (redis !== undefined) {
    const { url } = redis;
    let runs = 0;
    await runAll("Redis", () => redisStore({ url, prefix: `{run-${++runs}}:` }));
  }
  return { title: "matchmaker: tickets in groups of 4, over 20 simulated servers", rows };
}

/** The table as text. */
export function formatMatchmaker(rows: readonly MatchmakerRow[]): string {
  const head = ["state", "tickets", "", "tickets/s", "p50 ms", "p99 ms", "largest tick ms"];
  return textTable(
    head,
    rows.map(({ store, when, tickets, ticketsPerSecond, p50Ms, p99Ms, largestTickMs }) => [
      store,
      tickets.toLocaleString("en"),
      when,
      short(ticketsPerSecond),
      short(p50Ms),
      short(p99Ms),
      short(largestTickMs),
    ]),
  );
}
