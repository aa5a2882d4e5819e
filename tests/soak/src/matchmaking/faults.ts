// SPDX-License-Identifier: Apache-2.0
import { setTimeout } from "node:timers/promises";
import type { Crowd, Fleet } from "./fleet.ts";
import type { Permits } from "./ledger.ts";

/** A fault that is provoked while agents play. */
export interface Fault {
  readonly name: string;
  /** True if it is part of the short run. */
  readonly isQuick?: boolean;
  /** True if no match is possible while the fault lasts. */
  readonly stopsService?: boolean;
  /**
   * Provokes the fault, and ends it if it has an end.
   *
   * @param allow Sets the fates that the fault explains.
   * @returns The time from which the recovery of every agent counts: the start of the fault, or its end if some agents
   *   cannot play while it lasts.
   */
  provoke(fleet: Fleet, allow: (permits: Permits) => void): Promise<Provoked>;
}

/** A fault that was provoked. */
export interface Provoked {
  /** Time from which the recovery of every agent counts, in milliseconds since 1970. */
  readonly sinceMs: number;
  /** Figures of the fault, for the table. */
  readonly note?: string;
  /** Restores what the fault took away, after the recovery. */
  readonly mend?: () => Promise<void>;
}

/** Longer than a leader's lease, and than the time limit of a command of Redis. */
const standstillMs = 8_000;
/** Longer than a server's lease, and shorter than the time in which it may return. */
const lostMs = 18_000;
const floodMs = 10_000;

/** A match lacks an agent. */
const lacksAgents: Permits = ({ is }) => is === "alone";
/** Agents learn of their seats only after these were given to others, so that matches lack agents. */
const lateNews: Permits = ({ is, why = "" }) =>
  is === "alone" || /the ticket's seat was reserved for|this join token expired/.test(why);
/** The matchmakers do not know the worlds and matches that exist; agents create waiting tickets again. */
const lostState: Permits = ({ is }) => is === "alone" || is === "lost";

/**
 * The faults, in the order in which they are provoked.
 *
 * @param doomed The process of agents that is killed.
 * @param suspended The process of agents that is suspended.
 */
export function faults(doomed: Crowd, suspended: Crowd): readonly Fault[] {
  return [
    {
      name: "the leading matchmaker is killed",
      isQuick: true,
      async provoke(fleet) {
        const sinceMs = Date.now();
        const { leader } = fleet;
        await leader.actor.kill();
        return { sinceMs, mend: () => fleet.restart(leader) };
      },
    },
    {
      name: "the leading matchmaker is suspended",
      async provoke(fleet, allow) {
        allow(lateNews);
        const { leader } = fleet;
        leader.actor.freeze();
        await setTimeout(standstillMs);
        leader.actor.thaw();
        return { sinceMs: Date.now() };
      },
    },
    {
      name: "a server is killed",
      isQuick: true,
      async provoke(fleet, allow) {
        const server = await fleet.takeBusiestServer();
        allow(({ address }) => address === server.url);
        const sinceMs = Date.now();
        await server.actor.kill();
        return { sinceMs, mend: () => fleet.addServer() };
      },
    },
    {
      name: "a server is suspended",
      async provoke(fleet, allow) {
        const server = await fleet.takeBusiestServer();
        allow(({ address }) => address === server.url);
        server.actor.freeze();
        await setTimeout(lostMs);
        server.actor.thaw();
        fleet.returnServer(server);
        return { sinceMs: Date.now() };
      },
    },
    {
      name: "agents are killed",
      isQuick: true,
      async provoke(fleet, allow) {
        allow(lacksAgents);
        const sinceMs = Date.now();
        await fleet.killCrowd(doomed);
        return { sinceMs };
      },
    },
    {
      name: "agents are suspended",
      async provoke(_fleet, allow) {
        allow((event) => lacksAgents(event) || suspended.has(event.agent));
        suspended.actor.freeze();
        await setTimeout(standstillMs);
        suspended.actor.thaw();
        return { sinceMs: Date.now() };
      },
    },
    {
      name: "Redis pauses its clients",
      stopsService: true,
      async provoke({ redis }, allow) {
        allow(lateNews);
        await redis.command("CLIENT", "PAUSE", String(standstillMs), "ALL");
        await setTimeout(standstillMs);
        return { sinceMs: Date.now() };
      },
    },
    {
      name: "Redis is suspended",
      stopsService: true,
      isQuick: true,
      async provoke({ redis }, allow) {
        allow(lateNews);
        redis.freeze();
        await setTimeout(standstillMs);
        redis.thaw();
        return { sinceMs: Date.now() };
      },
    },
    {
      name: "Redis is killed, and restarts",
      stopsService: true,
      async provoke({ redis }, allow) {
        allow(lateNews);
        await redis.kill();
        await redis.start();
        return { sinceMs: Date.now() };
      },
    },
    {
      name: "Redis restarts without its data",
      stopsService: true,
      async provoke({ redis }, allow) {
        allow(lostState);
        await redis.kill();
        await redis.wipe();
        await redis.start();
        return { sinceMs: Date.now() };
      },
    },
    {
      name: "FLUSHALL",
      isQuick: true,
      async provoke({ redis }, allow) {
        allow(lostState);
        const sinceMs = Date.now();
        await redis.command("FLUSHALL");
        return { sinceMs };
      },
    },
    {
      name: "a hostile caller floods",
      isQuick: true,
      async provoke(fleet) {
        const sinceMs = Date.now();
        const { calls, created, refused, failed } = await fleet.flood(floodMs);
        const note = `${calls} calls, ${created} tickets, ${refused} refused, ${failed} failed`;
        return { sinceMs, note };
      },
    },
  ];
}
