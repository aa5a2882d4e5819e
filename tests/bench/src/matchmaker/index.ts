// SPDX-License-Identifier: Apache-2.0
import { memoryStore, type Store } from "@dm-env-rpc/matchmaker";
import { redisStore } from "@dm-env-rpc/matchmaker/redis";
import { hasRedis, RedisServer } from "@dm-env-rpc/tests-processes";
import { short, textTable } from "../harness/table.ts";
import type { TableResult } from "../tables/table-result.ts";
import { type Arrival, type MatchmakingRun, matchmake } from "./run.ts";

/** One row of the matchmaker's table. */
interface Row extends MatchmakingRun {
  readonly store: "memory" | "Redis";
  readonly arrival: Arrival;
}

/** Numbers of tickets and how they arrive. */
type Plan = readonly (readonly [number, Arrival])[];

const full: Plan = [
  [10_000, "at once"],
  [10_000, "1,000/s"],
  [1_000, "waiting"],
  [10_000, "waiting"],
  [100_000, "waiting"],
];
const quickly: Plan = [
  [2_000, "at once"],
  [1_000, "1,000/s"],
  [1_000, "waiting"],
  [4_000, "waiting"],
];

/**
 * Measures the matchmaker with its state in memory and, where there is a redis-server, in Redis:
 * 10,000 tickets that arrive, and the assignment of 1,000 to 100,000 waiting tickets, in groups of
 * 4 on 20 simulated servers.
 */
export async function runMatchmaker(
  { quick }: { readonly quick: boolean },
  onProgress: (text: string) => void,
): Promise<TableResult> {
  const rows: Row[] = [];
  const runAll = async (store: Row["store"], open: () => Promise<Store>): Promise<void> => {
    // Warms up the compiler.
    await matchmake(await open(), 1_000, "at once");
    for (const [tickets, arrival] of quick ? quickly : full) {
      onProgress(`${store}: ${tickets.toLocaleString("en")} tickets, ${arrival}`);
      rows.push({ store, arrival, ...(await matchmake(await open(), tickets, arrival)) });
    }
  };
  await runAll("memory", async () => memoryStore());
  if (hasRedis) {
    await using redis = await RedisServer.start({ sync: "everysec" });
    let runs = 0;
    await runAll("Redis", () => redisStore({ url: redis.url, prefix: `{run-${++runs}}:` }));
  }
  const notes = hasRedis
    ? []
    : ["without Redis: no redis-server here; apt-get install redis-server"];
  return {
    name: "matchmaker",
    title: "matchmaker: tickets in groups of 4, over 20 simulated servers",
    text: [tableOf(rows), "", ...growthOf(rows), ...notes].join("\n"),
    data: rows,
    plots: [],
    missed: 0,
  };
}

function tableOf(rows: readonly Row[]): string {
  const head = ["state", "tickets", "", "tickets/s", "p50 ms", "p99 ms", "largest tick ms"];
  return textTable(
    head,
    rows.map(({ store, arrival, tickets, ticketsPerSecond, p50Ms, p99Ms, largestTickMs }) => [
      store,
      tickets.toLocaleString("en"),
      arrival,
      short(ticketsPerSecond),
      short(p50Ms),
      short(p99Ms),
      short(largestTickMs),
    ]),
  );
}

/**
 * Returns the exponent with which the time to assign all waiting tickets grows with their number: 1
 * is linear.
 */
function growthOf(rows: readonly Row[]): string[] {
  return (["memory", "Redis"] as const).flatMap((store) => {
    const waiting = rows.filter((row) => row.store === store && row.arrival === "waiting");
    const [first, last] = [waiting[0], waiting.at(-1)];
    if (first === undefined || last === undefined) {
      return [];
    }
    const times = last.tickets / first.tickets;
    const longer = times * (first.ticketsPerSecond / last.ticketsPerSecond);
    const power = Math.log(longer) / Math.log(times);
    return `${store}: ${times} times as many waiting tickets take ${short(longer)} times as long, n^${power.toFixed(2)}`;
  });
}
