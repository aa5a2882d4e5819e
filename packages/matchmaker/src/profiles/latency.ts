// SPDX-License-Identifier: Apache-2.0
import type { LatencyLimit as Message } from "@dm-env-rpc/protocol/matchmaker";
import type { WaitingTicket } from "../functions/match-function.ts";
import { milliseconds } from "../model/durations.ts";

/** A profile's limit on the latencies of its tickets. */
export interface LatencyLimit {
  readonly maxMs: number;
  readonly widenPerSecond: number;
  /** The waiting time after which the limit no longer applies; infinite by default. */
  readonly dropAfterMs: number;
}

/** Reads the limit of a profile. */
export function latencyLimitOf(message: Message): LatencyLimit {
  const { maxMs, widenPerSecond, dropAfter } = message;
  const dropAfterMs = milliseconds(dropAfter) ?? Number.POSITIVE_INFINITY;
  return { maxMs, widenPerSecond, dropAfterMs };
}

/** Returns true if a ticket accepts servers of a region now. */
export function acceptsRegion(
  { maxMs, widenPerSecond, dropAfterMs }: LatencyLimit,
  { createdMs, latenciesMs }: Pick<WaitingTicket, "createdMs" | "latenciesMs">,
  region: string,
  nowMs: number,
): boolean {
  const waitedMs = Math.max(0, nowMs - createdMs);
  if (latenciesMs === undefined || waitedMs >= dropAfterMs) {
    return true;
  }
  return latencyTo(latenciesMs, region) <= maxMs + (widenPerSecond * waitedMs) / 1_000;
}

/**
 * Returns the regions that all tickets accept, sorted by latency, lowest first. The latency of a region is
 * the greatest latency that any of the tickets has to the region.
 */
export function regionsFor(
  limit: LatencyLimit,
  tickets: readonly Pick<WaitingTicket, "createdMs" | "latenciesMs">[],
  regions: Iterable<string>,
  nowMs: number,
): string[] {
  const known = tickets
    .map(({ latenciesMs }) => latenciesMs)
    .filter((latenciesMs) => latenciesMs !== undefined);
  const worst = (region: string): number =>
    Math.max(0, ...known.map((latenciesMs) => latencyTo(latenciesMs, region)));
  return [...regions]
    .filter((region) => tickets.every((ticket) => acceptsRegion(limit, ticket, region, nowMs)))
    .map((region) => ({ region, worstMs: worst(region) }))
    .sort((a, b) => (a.worstMs === b.worstMs ? 0 : a.worstMs - b.worstMs))
    .map(({ region }) => region);
}

function latencyTo(latenciesMs: Readonly<Record<string, number>>, region: string): number {
  const known = Object.hasOwn(latenciesMs, region) ? latenciesMs[region] : undefined;
  return known ?? Number.POSITIVE_INFINITY;
}
