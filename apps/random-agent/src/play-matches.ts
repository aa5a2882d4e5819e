// SPDX-License-Identifier: Apache-2.0
import type { DynamicObservation, Environment, TimeStep } from "@dm-env-rpc/client";
import {
  joinMatch,
  type MatchmakerClient,
  matchmakerClient,
  type TicketAssignment,
} from "@dm-env-rpc/matchmaker/client";
import { isTensorError } from "@dm-env-rpc/tensor-codec";
import type { MatchedWorld, MatchesSummary, PlayOptions } from "./play.ts";
import { randomPolicy, rewardOf } from "./policy.ts";
import { type Random, randomSource } from "./random.ts";
import { played, Tally } from "./tally.ts";

/** What to play, and who finds it. */
export interface PlayMatchesOptions extends Omit<PlayOptions, "address" | "world" | "onTimeStep"> {
  /** Addresses of matchmakers that share their state. */
  readonly matchmakers: readonly string[];
  /** Called after every step of every agent, which waits for the promise, if it gets one. */
  readonly onTimeStep?:
    | ((
        agent: number,
        step: TimeStep<DynamicObservation>,
        match: TicketAssignment,
      ) => Promise<void> | undefined)
    | undefined;
}

/** Matches in a row in which no action of an agent is answered, until it gives up. */
const maxFruitless = 10;
/** How long no matchmaker may answer: a wrong address is told soon, one that is started anew is waited for. */
const firstAnswerMs = 5_000;
const laterAnswerMs = 60_000;
const closeTimeoutMs = 1_000;

/**
 * Plays what a matchmaker gives with agents that act at random, each with a ticket of its own. One whose
 * world is lost finds another match and goes on there, until it has made its steps.
 *
 * @throws DmEnvRpcError when no matchmaker answers, or it refuses; when a ticket fails, or match after match
 * cannot be played.
 * @throws TensorError when a server sends what does not fit its own specs.
 */
export async function playMatches(options: PlayMatchesOptions): Promise<MatchesSummary> {
  const { agents, seed, steps } = options;
  const matchmaker = matchmakerClient(options.matchmakers);
  const tallies = Array.from({ length: agents }, (_, agent) => new Tally(agent));
  const worlds = new Map<string, MatchedWorld>();
  const failed = new AbortController();
  const signal = AbortSignal.any([failed.signal, ...(options.signal ? [options.signal] : [])]);
  options.onStart?.({ expectedSteps: steps * agents, agents: tallies });
  const began = performance.now();
  const playing = tallies.map(async (tally) => {
    const agent = { tally, random: randomSource(seed, tally.agent), worlds, signal, options };
    try {
      await playOn(matchmaker, agent);
    } catch (error) {
      failed.abort();
      throw error;
    }
  });
  const outcomes = await Promise.allSettled(playing);
  const failure = outcomes.find((outcome) => outcome.status === "rejected");
  if (failure !== undefined) {
    throw failure.reason;
  }
  const seconds = (performance.now() - began) / 1_000;
  return { worlds: [...worlds.values()], ...played(tallies, seed, seconds, steps * agents) };
}

/** One agent. */
interface MatchedAgent {
  readonly tally: Tally;
  readonly random: Random;
  /** Where anybody played, by address and name. */
  readonly worlds: Map<string, MatchedWorld>;
  readonly signal: AbortSignal;
  readonly options: PlayMatchesOptions;
}

/** Plays match after match, until all steps are made or the signal aborts. */
async function playOn(matchmaker: MatchmakerClient, agent: MatchedAgent): Promise<void> {
  const { tally, signal, options } = agent;
  let fruitless = 0;
  while (tally.steps < options.steps && !signal.aborted) {
    const before = tally.steps;
    let match: (TicketAssignment & { readonly ticketId: string }) | undefined;
    try {
      const unreachableMs = before === 0 ? firstAnswerMs : laterAnswerMs;
      match = await matchmaker.findMatch({}, { signal, unreachableMs });
      await play(match, agent);
    } catch (error) {
      if (signal.aborted) {
        break;
      }
      // The first step of a sequence has no action.
      fruitless = tally.steps > before + 1 ? 0 : fruitless + 1;
      // Without a match it is the matchmaker who refuses; worlds come and go.
      if (match === undefined || isTensorError(error) || fruitless === maxFruitless) {
        throw error;
      }
    } finally {
      if (match !== undefined) {
        await release(matchmaker, match.ticketId);
      }
    }
  }
}

async function play(match: TicketAssignment, agent: MatchedAgent): Promise<void> {
  const { tally, random, signal, options, worlds } = agent;
  const { observations } = options;
  await using environment: Environment = await joinMatch(match, {
    observations,
    reward: rewardOf,
    signal,
  });
  const { address, worldName: world } = match;
  const key = `${address} ${world}`;
  const known = worlds.get(key)?.agents ?? [];
  worlds.set(key, { address, world, agents: [...known, tally.agent] });
  const policy = randomPolicy(environment, random);
  // A step may wait for other agents, who may never come: closing ends the wait.
  const leave = (): void => void environment.connection.close({ timeoutMs: closeTimeoutMs });
  signal.addEventListener("abort", leave, { once: true });
  try {
    let step = await environment.reset();
    for (;;) {
      tally.add(step);
      await options.onTimeStep?.(tally.agent, step, match);
      if (tally.steps >= options.steps || signal.aborted) {
        return;
      }
      step = await environment.step(policy(step));
    }
  } finally {
    signal.removeEventListener("abort", leave);
  }
}

/** Gives up a ticket that nobody follows any more: else it would wait again when its world is lost. */
async function release(matchmaker: MatchmakerClient, ticketId: string): Promise<void> {
  // Where no matchmaker answers, the seat is given up when the server reports that the agent has left.
  await matchmaker.cancel(ticketId).catch(() => undefined);
}
