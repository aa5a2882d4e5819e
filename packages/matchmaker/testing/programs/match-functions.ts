// SPDX-License-Identifier: Apache-2.0
// Custom match functions for worker threads.
import { isMainThread } from "node:worker_threads";
import type { MatchProposal } from "../../src/functions/match-function.ts";
import type { CustomMatchContext } from "../../src/functions/profile-function.ts";

/** Matches tickets in pairs, and reports in the data whether it runs in the main thread. */
export function* inPairs({ pools, parameters }: CustomMatchContext): Iterable<MatchProposal> {
  const tickets = pools.get("all") ?? [];
  for (let at = 0; at + 1 < tickets.length; at += 2) {
    const data = { isMainThread, map: String(parameters["map"]) };
    yield { teams: { all: tickets.slice(at, at + 2) }, data };
  }
}

/** Never returns once a ticket has the tag `endless`, after it has proposed pairs. */
export function* endless(context: CustomMatchContext): Iterable<MatchProposal> {
  yield* inPairs(context);
  const isEndless = context.pools.get("all")?.some(({ search }) => search.tags.includes("endless"));
  while (isEndless) {}
}

export function* failing(context: CustomMatchContext): Iterable<MatchProposal> {
  yield* inPairs(context);
  throw new Error("division by zero");
}

export function exiting(): never {
  process.exit(7);
}

export function* functionAsData({ pools }: CustomMatchContext): Iterable<object> {
  yield { teams: { all: pools.get("all") ?? [] }, data: { map: () => "night" } };
}

export const notAFunction = 7;
