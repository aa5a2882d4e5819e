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
import { type Policy, randomPolicy, rewardOf } from "./policy.ts";
import { type Random, randomSource } from "./random.ts";
import { played, Tally } from "./tally.ts";

/** Options of `playMatches`. */
export interface PlayMatchesOptions extends Omit<PlayOptions, "address" | "world" | "onTimeStep"> {
  /** Addresses of matchmakers that share a store. */
  readonly matchmakers: readonly string[];
  /** Makes the policy of an agent when it has joined a world. Default: `randomPolicy`. */
  readonly policyOf?:
    | ((agent: number, environment: Environment, random: Random) => Policy)
    | undefined;
  /** Called after every step of every agent; the agent waits for a returned promise. */
  readonly onTimeStep?:
    | ((
        agent: number,
        step: TimeStep<DynamicObservation>,
        match: TicketAssignment,
      ) => Promise<void> | undefined)
    | undefined;
}

/** Number of consecutive matches without an answered action after which an agent fails. */
const maxFruitless = 10;
/**
 * Time limits for a matchmaker: short for its first answer, so that a wrong address fails soon; longer afterwards, to
 * survive a restart.
 */
const firstAnswerMs = 5_000;
const laterAnswerMs = 60_000;
const closeTimeoutMs = 1_000;

/**
 * Plays matches of a matchmaker with agents that have a ticket each, and act at random by default. An agent whose
 * world ends or is lost finds another match, until it has made its steps.
 *
 * @throws DmEnvRpcError if no matchmaker answers or it refuses, if a ticket fails, or if several matches in a row
 * cannot be played.
 * @throws TensorError if a server sends a value that does not fit its own specs.
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

const defaultPolicy: NonNullable<PlayMatchesOptions["policyOf"]> = (_agent, environment, random) =>
  randomPolicy(environment, random);

/** An agent and its state. */
interface MatchedAgent {
  readonly tally: Tally;
  readonly random: Random;
  /** Worlds that agents played in, by address and name. */
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
      // Without a match, the matchmaker has refused. A lost world does not end the play.
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
  const policy = (options.policyOf ?? defaultPolicy)(tally.agent, environment, random);
  // A step may wait for other agents, which may never join: closing ends the wait.
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

/** Cancels a finished ticket; otherwise the matchmaker would queue it again if its world is lost. */
async function release(matchmaker: MatchmakerClient, ticketId: string): Promise<void> {
  // If it does not answer, the matchmaker releases the seat when the server reports that the agent has left.
  await matchmaker.cancel(ticketId).catch(() => undefined);
}
