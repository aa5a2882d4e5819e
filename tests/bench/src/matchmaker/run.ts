// SPDX-License-Identifier: Apache-2.0
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
/** Calls that are made at a time, as many agents do. */
const concurrency = 256;

/** What one run was like. */
export interface MatchmakingRun {
  readonly tickets: number;
  readonly ticketsPerSecond: number;
  /** From the creation of a ticket to its assignment, in milliseconds. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** The longest look of the director, in milliseconds. */
  readonly largestTickMs: number;
}

/** Servers that do at once what they are asked. */
function instantServers(): WorldServers {
  let worlds = 0;
  return {
    check: async () => {},
    create: async () => `world-${++worlds}`,
    destroy: async () => {},
    reset: async () => {},
    forget: () => {},
    close: async () => {},
    [Symbol.asyncDispose]: async () => {},
  };
}

/**
 * Lets tickets in and waits until all are assigned, in groups of 4, over 20 simulated servers.
 *
 * @param when Whether the servers are there from the start (`arriving`), or come when all tickets wait (`waiting`):
 * then the clock starts with them.
 */
export async function matchmake(
  store: Store,
  tickets: number,
  when: "arriving" | "waiting",
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
    settings: { serverLeaseMs: 3_600_000, maxWaitMs: 3_600_000, orphanMs: 3_600_000 },
    onEvent: (event) => {
      if (event.kind === "ticked") largestTickMs = Math.max(largestTickMs, event.tookMs);
      if (event.kind !== "assigned") return;
      waits.push(...event.waitedMs);
      assignedAt.push(performance.now());
      if (waits.length === tickets) finish();
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
    let left = tickets;
    const agent = async (): Promise<void> => {
      while (left-- > 0)
        await frontend.createTicket({ searchFields: { doubles: { skill: left } } });
    };
    await Promise.all(Array.from({ length: concurrency }, agent));
  };
  if (when === "arriving") await register();
  else await arrive();
  largestTickMs = 0;
  const began = performance.now();
  await (when === "arriving" ? arrive() : register());
  await finished;
  const seconds = ((assignedAt.at(-1) ?? began) - began) / 1_000;
  // Of tickets that waited for servers only what came after counts.
  const counted =
    when === "arriving"
      ? waits
      : assignedAt.flatMap((at) => Array.from({ length: groupSize }, () => at - began));
  return {
    tickets,
    ticketsPerSecond: tickets / seconds,
    p50Ms: quantile(counted, 0.5),
    p99Ms: quantile(counted, 0.99),
    largestTickMs,
  };
}
