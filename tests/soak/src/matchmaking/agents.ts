// SPDX-License-Identifier: Apache-2.0
// The process of agents that play one sequence of each match. It receives the addresses of the matchmakers and
// the number of agents, then the end of the kills, then the end of the play.
import type { Environment } from "@dm-env-rpc/client";
import {
  joinMatch,
  type MatchmakerClient,
  matchmakerClient,
  type TicketAssignment,
} from "@dm-env-rpc/matchmaker/client";

/** Messages to the process. */
export type Order =
  | { readonly kind: "play"; readonly matchmakers: readonly string[]; readonly agents: number }
  /** The kills are over: every agent must finish a sequence, and no match may be lost. */
  | { readonly kind: "kills-over" }
  /** Finish the current sequences, and start no more. */
  | { readonly kind: "end" };

/** Result of the play. */
export interface Counters {
  agents: number;
  finished: number;
  /** Matches that were lost, and those lost after the kills. */
  lost: number;
  lostAfterKills: number;
  /** Tickets that failed, and the first error. */
  failedTickets: number;
  firstFailure: string | undefined;
  /** Agents that finished a sequence after the kills. */
  finishedAfterKills: number;
  /** Longest time from a ticket to the first step of its sequence, in milliseconds. */
  longestMs: number;
}

/** Maximum wait for other agents, which may have stopped. */
const patienceMs = 10_000;

const counters: Counters = {
  agents: 0,
  finished: 0,
  lost: 0,
  lostAfterKills: 0,
  failedTickets: 0,
  firstFailure: undefined,
  finishedAfterKills: 0,
  longestMs: 0,
};
const ending = new AbortController();
let areKillsOver = false;

process.on("message", (order: Order) => {
  if (order.kind === "kills-over") {
    areKillsOver = true;
  } else if (order.kind === "end") {
    ending.abort();
  } else {
    void playAll(order.matchmakers, order.agents);
  }
});

async function playAll(matchmakers: readonly string[], agents: number): Promise<void> {
  const matchmaker = matchmakerClient(matchmakers);
  await Promise.all(Array.from({ length: agents }, () => live(matchmaker)));
  process.send?.(counters, () => process.disconnect());
}

async function live(matchmaker: MatchmakerClient): Promise<void> {
  let hasFinishedAfterKills = false;
  counters.agents += 1;
  while (!ending.signal.aborted) {
    const from = performance.now();
    let match: Awaited<ReturnType<MatchmakerClient["findMatch"]>>;
    try {
      match = await matchmaker.findMatch({}, { signal: ending.signal });
    } catch (error) {
      if (ending.signal.aborted) {
        break;
      }
      counters.failedTickets += 1;
      counters.firstFailure ??= String(error);
      continue;
    }
    const wereKillsOver = areKillsOver;
    try {
      await playOne(match, from);
      counters.finished += 1;
      if (wereKillsOver && !hasFinishedAfterKills) {
        hasFinishedAfterKills = true;
        counters.finishedAfterKills += 1;
        if (counters.finishedAfterKills === counters.agents) {
          process.send?.("all finished");
        }
      }
      if (counters.finished === counters.agents) {
        process.send?.("playing");
      }
    } catch (error) {
      // A wait for agents that have stopped is not a lost match.
      if (ending.signal.aborted && !(error instanceof Unfinished)) {
        break;
      }
      counters.lost += 1;
      if (wereKillsOver) {
        counters.lostAfterKills += 1;
        counters.firstFailure ??= String(error);
      }
    } finally {
      await matchmaker.cancel(match.ticketId).catch(() => {});
    }
  }
}

/** A sequence that started and did not end. */
class Unfinished extends Error {}

async function playOne(match: TicketAssignment, from: number): Promise<void> {
  await using environment = await joinMatch(match, { observations: ["step"] });
  let step = await begin(environment);
  counters.longestMs = Math.max(counters.longestMs, performance.now() - from);
  try {
    while (!step.last()) {
      step = await environment.step({ move: Math.floor(Math.random() * 6) });
    }
  } catch (error) {
    throw new Unfinished(String(error), { cause: error });
  }
}

/** Makes the first step, which waits for all four agents; at the end of the play only briefly. */
async function begin(environment: Environment): ReturnType<Environment["reset"]> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const goHome = (): void => {
    timer = setTimeout(() => void environment.connection.close(), patienceMs);
  };
  if (ending.signal.aborted) {
    goHome();
  } else {
    ending.signal.addEventListener("abort", goHome, { once: true });
  }
  try {
    return await environment.reset();
  } finally {
    ending.signal.removeEventListener("abort", goHome);
    clearTimeout(timer);
  }
}
