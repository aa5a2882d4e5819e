// SPDX-License-Identifier: Apache-2.0
import { setTimeout } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { createClient, createRouterTransport } from "@connectrpc/connect";
import { createMatchmaker, type Store, type WorldServers } from "@dm-env-rpc/matchmaker";
import {
  FrontendService,
  MatchProfileSchema,
  RegistryService,
} from "@dm-env-rpc/protocol/matchmaker";
import { quantile } from "../harness/statistics.ts";

const groupSize = 4;
const serverCount = 20;
/** Concurrent calls, as from many agents. */
const concurrency = 256;
const steadyPerSecond = 1_000;

/**
 * Arrival of tickets: as fast as possible, at a rate, or before the servers, so that all of them
 * wait.
 */
export type Arrival = "at once" | "1,000/s" | "waiting";

/** Figures of one run. */
export interface MatchmakingRun {
  readonly tickets: number;
  readonly ticketsPerSecond: number;
  /** From the creation of a ticket to its assignment, in milliseconds. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Longest tick of the director, in milliseconds. */
  readonly largestTickMs: number;
}

/** Servers that answer every request at once. */
function instantServers(): WorldServers {
  let worlds = 0;
  return {
    check: async () => {},
    isThere: async () => false,
    create: async () => `world-${++worlds}`,
    destroy: async () => {},
    reset: async () => {},
    forget: () => {},
    close: async () => {},
    [Symbol.asyncDispose]: async () => {},
  };
}

/**
 * Creates tickets and waits until all are assigned, in groups of 4, on 20 simulated servers.
 *
 * @param arrival With `waiting` the clock starts when the servers register.
 */
export async function matchmake(
  store: Store,
  tickets: number,
  arrival: Arrival,
): Promise<MatchmakingRun> {
  const waits: number[] = [];
  const assignedAt: number[] = [];
  let largestTickMs = 0;
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  await using matchmaker = await createMatchmaker({
    store,
    servers: instantServers(),
    profiles: [
      create(MatchProfileSchema, {
        name: "four",
        pools: [{ name: "all" }],
        matchFunction: { function: { case: "byCount", value: { count: groupSize } } },
        worldType: "simulated",
      }),
    ],
    settings: {
      serverLeaseMs: 3_600_000,
      maxWaitMs: 3_600_000,
      orphanMs: 3_600_000,
      ticketLeaseMs: 3_600_000,
    },
    onEvent: (event) => {
      if (event.kind === "ticked") {
        largestTickMs = Math.max(largestTickMs, event.tookMs);
      }
      if (event.kind !== "assigned") {
        return;
      }
      waits.push(...event.waitedMs);
      assignedAt.push(performance.now());
      if (waits.length === tickets) {
        finish();
      }
    },
  });
  const transport = createRouterTransport((router) => matchmaker.routes(router));
  const frontend = createClient(FrontendService, transport);
  const registry = createClient(RegistryService, transport);
  const register = async (): Promise<void> => {
    const maxWorlds = Math.ceil(tickets / groupSize / serverCount);
    for (let server = 1; server <= serverCount; server++) {
      await registry.registerServer({
        serverId: `server-${server}`,
        address: `server-${server}.test:1`,
        capacity: { maxWorlds, maxAgents: maxWorlds * groupSize },
        worldTypes: ["simulated"],
      });
    }
  };
  const arrive = async (): Promise<void> => {
    const began = performance.now();
    let made = 0;
    const agent = async (): Promise<void> => {
      while (made < tickets) {
        const skill = made++;
        const dueMs = arrival === "1,000/s" ? (skill * 1_000) / steadyPerSecond : 0;
        const earlyMs = began + dueMs - performance.now();
        if (earlyMs > 0) {
          await setTimeout(earlyMs);
        }
        await frontend.createTicket({ searchFields: { doubles: { skill } } });
      }
    };
    await Promise.all(Array.from({ length: concurrency }, agent));
  };
  if (arrival !== "waiting") {
    await register();
  } else {
    await arrive();
  }
  largestTickMs = 0;
  const began = performance.now();
  await (arrival === "waiting" ? register() : arrive());
  await finished;
  const seconds = ((assignedAt.at(-1) ?? began) - began) / 1_000;
  // For waiting tickets only the time after the servers registered counts.
  const counted =
    arrival === "waiting"
      ? assignedAt.flatMap((at) => Array.from({ length: groupSize }, () => at - began))
      : waits;
  return {
    tickets,
    ticketsPerSecond: tickets / seconds,
    p50Ms: quantile(counted, 0.5),
    p99Ms: quantile(counted, 0.99),
    largestTickMs,
  };
}
