// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { type Client, createClient, createRouterTransport } from "@connectrpc/connect";
import {
  createMatchmaker,
  defaultSettings,
  type Matchmaker,
  type MatchmakerEvent,
  type MatchmakerSettings,
  memoryStore,
  type Store,
  type WorldServers,
} from "@dm-env-rpc/matchmaker";
import { redisStore } from "@dm-env-rpc/matchmaker/redis";
import {
  FrontendService,
  type MatchProfile,
  MatchProfileSchema,
  RegistryService,
} from "@dm-env-rpc/protocol/matchmaker";
import type { Job } from "./job.ts";

/** Agents of a match. */
export const groupSize = 4;

const longMs = 3_600_000;
const plenty = 10_000_000;

/** Times and limits so large that no measurement reaches them. */
const wanted: Partial<MatchmakerSettings> = {
  serverLeaseMs: longMs,
  maxWaitMs: longMs,
  orphanMs: longMs,
  ticketLeaseMs: longMs,
  awayMs: longMs,
  maxServers: plenty,
  maxServersBytes: 2 ** 33,
  maxTickets: plenty,
  maxTicketsBytes: 2 ** 33,
  maxTicketsPerCaller: plenty,
  maxTicketsBytesPerCaller: 2 ** 33,
  maxWatches: plenty,
  maxWatchesPerCaller: plenty,
  maxCalls: plenty,
  maxCallsPerCaller: plenty,
  maxCallsPerSecond: plenty,
  maxConnectionsPerAddress: plenty,
};

/** The settings of a measurement, without those that the matchmaker of an earlier commit lacks. */
export const settings: Partial<MatchmakerSettings> = Object.fromEntries(
  Object.entries(wanted).filter(([name]) => name in defaultSettings),
);

const byCount = create(MatchProfileSchema, {
  name: "four",
  pools: [{ name: "all" }],
  matchFunction: { function: { case: "byCount", value: { count: groupSize } } },
  worldType: "simulated",
});

/** Matches only tickets of equal skill. Every ticket has a different skill, so none match. */
const bySkill = create(MatchProfileSchema, {
  name: "equals",
  pools: [{ name: "all" }],
  matchFunction: {
    function: {
      case: "skillWindow",
      value: { count: groupSize, doubleArg: "skill", window: 0, widenPerSecond: 0 },
    },
  },
  worldType: "simulated",
});

/** Returns the profile of a measurement. */
export function profileOf({ kind }: Job): MatchProfile {
  return kind === "wait" ? bySkill : byCount;
}

/** Servers that answer every request at once. */
export function instantServers(): WorldServers {
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

/** Opens the store of a measurement. */
export async function openStore({ redis }: Job): Promise<Store> {
  return redis === undefined ? memoryStore() : await redisStore({ url: redis, commandMs: longMs });
}

/** A matchmaker with clients in its process. */
export interface Fleet {
  readonly matchmaker: Matchmaker;
  readonly frontend: Client<typeof FrontendService>;
  /** Registers the servers of the measurement, with room for all tickets. */
  register(): Promise<void>;
}

/** Starts a matchmaker on a store. */
export async function startFleet(
  job: Job,
  store: Store,
  onEvent: (event: MatchmakerEvent) => void,
): Promise<Fleet> {
  const profiles = [profileOf(job)];
  const servers = instantServers();
  const matchmaker = await createMatchmaker({ store, servers, profiles, settings, onEvent });
  const transport = createRouterTransport((router) => matchmaker.routes(router));
  const registry = createClient(RegistryService, transport);
  return {
    matchmaker,
    frontend: createClient(FrontendService, transport),
    register: () => registerServers(job, registry),
  };
}

/** Registers the servers of a measurement. */
export async function registerServers(
  { servers, tickets }: Job,
  registry: Client<typeof RegistryService>,
): Promise<void> {
  const maxWorlds = Math.ceil(tickets / groupSize / servers) + 1;
  const capacity = { maxWorlds, maxAgents: maxWorlds * groupSize };
  for (let i = 0; i < servers; i++) {
    await registry.registerServer({
      serverId: `server-${i}`,
      address: `server-${i}.test:1`,
      capacity,
      worldTypes: ["simulated"],
    });
    // As over a network, other work of the process has its turns.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Calls `call` with the numbers from 0 to `count` - 1, at most 256 at a time, and at most `perSecond` per second. */
export async function callAll(
  count: number,
  call: (number: number) => Promise<unknown>,
  perSecond = Number.POSITIVE_INFINITY,
): Promise<void> {
  const began = performance.now();
  let made = 0;
  const caller = async (): Promise<void> => {
    while (made < count) {
      const number = made++;
      const earlyMs = began + (number * 1_000) / perSecond - performance.now();
      if (earlyMs > 0) {
        await new Promise((resolve) => setTimeout(resolve, earlyMs));
      }
      await call(number);
    }
  };
  await Promise.all(Array.from({ length: Math.min(256, count) }, caller));
}
