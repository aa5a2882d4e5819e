// SPDX-License-Identifier: Apache-2.0
import { connect } from "node:net";
import { hasRedis, RedisServer } from "@dm-env-rpc/tests-processes";
import type { Figures, Job } from "./worker/job.ts";

/** A row of the table, without its store. */
type Row = Omit<Job, "redis"> & { readonly stores: readonly ("memory" | "Redis")[] };

const both = ["memory", "Redis"] as const;

/** Rows of the whole table. */
const full: readonly Row[] = [
  { kind: "arrive", tickets: 10_000, servers: 20, stores: both },
  { kind: "arrive", tickets: 10_000, servers: 20, perSecond: 1_000, stores: both },
  { kind: "assign", tickets: 1_000, servers: 20, stores: both },
  { kind: "assign", tickets: 10_000, servers: 20, stores: both },
  { kind: "assign", tickets: 100_000, servers: 20, stores: both },
  { kind: "assign", tickets: 100_000, servers: 1_000, stores: both },
  { kind: "wait", tickets: 100_000, servers: 1_000, perSecond: 100, stores: both },
  { kind: "restart", tickets: 100_000, servers: 20, stores: ["Redis"] },
  { kind: "watch", tickets: 10_000, servers: 20, stores: both },
];

/** The same with fewer tickets. */
const quickly: readonly Row[] = [
  { kind: "arrive", tickets: 2_000, servers: 20, stores: both },
  { kind: "assign", tickets: 1_000, servers: 20, stores: both },
  { kind: "assign", tickets: 4_000, servers: 100, stores: both },
  { kind: "wait", tickets: 4_000, servers: 100, perSecond: 100, stores: ["memory"] },
  { kind: "restart", tickets: 4_000, servers: 20, stores: ["Redis"] },
  { kind: "watch", tickets: 500, servers: 20, stores: ["memory"] },
];

/** A measurement with its store. */
export interface Planned {
  readonly store: "memory" | "Redis";
  readonly job: Omit<Job, "redis">;
  /** Measures it, on an empty store. */
  with(measure: (job: Job) => Promise<Figures>): Promise<Figures>;
}

/** Options of a plan. */
export interface PlanOptions {
  /** Measures fewer tickets. */
  readonly quick: boolean;
  /** Kinds of measurements; all by default. */
  readonly modes: readonly string[] | undefined;
}

/** Returns the measurements of the table; those in Redis only where there is a redis-server. */
export function plan({ quick, modes }: PlanOptions): Planned[] {
  const rows = (quick ? quickly : full).filter(({ kind }) => modes?.includes(kind) ?? true);
  return rows.flatMap(({ stores, ...job }) =>
    stores
      .filter((store) => store === "memory" || hasRedis)
      .map((store) => ({
        store,
        job,
        async with(measure) {
          if (store === "memory") {
            return await measure({ ...job, redis: undefined });
          }
          await using redis = await RedisServer.start({ sync: "everysec" });
          const figures = await measure({ ...job, redis: redis.url });
          return { ...figures, redisMb: await memoryOf(redis) };
        },
      })),
  );
}

/** Returns the memory that a Redis uses, in MB. */
async function memoryOf({ port }: RedisServer): Promise<number> {
  const socket = connect(port, "127.0.0.1");
  socket.write("INFO memory\r\n");
  let text = "";
  for await (const chunk of socket) {
    text += String(chunk);
    const bytes = /used_memory:(\d+)\r/.exec(text)?.[1];
    if (bytes !== undefined) {
      return Number(bytes) / 2 ** 20;
    }
  }
  throw new Error(`expected the field used_memory of Redis, received "${text}"`);
}

/** Describes a measurement in a few words. */
export function describe({ kind, perSecond }: Omit<Job, "redis">): string {
  const rate = perSecond === undefined ? "" : `${perSecond.toLocaleString("en")}/s`;
  return {
    arrive: rate === "" ? "arrive at once" : `arrive, ${rate}`,
    assign: "waited, assigned",
    wait: `wait unmatched, ${rate} come and go`,
    restart: "waited, restart",
    watch: "watched, assigned",
  }[kind];
}
