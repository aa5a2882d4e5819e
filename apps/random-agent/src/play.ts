// SPDX-License-Identifier: Apache-2.0
import { connect, type DynamicObservation, type TimeStep } from "@dm-env-rpc/client";
import { remoteSlots, vectorize } from "@dm-env-rpc/client/vector";
import { playAll } from "./play-all.ts";
import { type Policy, randomPolicy, rewardOf } from "./policy.ts";
import { randomSource } from "./random.ts";
import { type AgentTally, type Played, played, Tally } from "./tally.ts";

/** Options of `playRandomly`. */
export interface PlayOptions {
  /** `HOST:PORT` of a server. */
  readonly address: string;
  /** Number of agents, each with its own connection. */
  readonly agents: number;
  /** The world to join. By default one is created, and destroyed at the end. */
  readonly world?: string | undefined;
  /** Number of steps of each agent, including the first steps of sequences. */
  readonly steps: number;
  /** Seed of the agents' choices; each agent has its own stream. */
  readonly seed: bigint;
  /**
   * Observations to request. Include `legal_actions` if the world has it, so that agents choose legal actions.
   * Default: all.
   */
  readonly observations?: readonly string[] | undefined;
  /** Ends the play early: agents leave, and the summary covers the steps so far. */
  readonly signal?: AbortSignal | undefined;
  /** Called once when all agents have joined, or look for a match, with live counters. */
  readonly onStart?: ((progress: Progress) => void) | undefined;
  /** Called after every step of every agent; the agent waits for a returned promise. */
  readonly onTimeStep?:
    | ((agent: number, step: TimeStep<DynamicObservation>) => Promise<void> | undefined)
    | undefined;
}

/** Live counters of a play. */
export interface Progress {
  /** Number of steps that all agents will make together. */
  readonly expectedSteps: number;
  readonly agents: readonly AgentTally[];
}

/** Result of `playRandomly`. */
export interface Summary extends Played {
  readonly world: string;
}

/** A world that agents played in. */
export interface MatchedWorld {
  /** Address of its server. */
  readonly address: string;
  readonly world: string;
  /** Numbers of the agents that played in it. */
  readonly agents: readonly number[];
}

/** Result of `playMatches`. */
export interface MatchesSummary extends Played {
  readonly worlds: readonly MatchedWorld[];
}

/**
 * Plays a world of any server with agents that act at random. All agents join before the first
 * one steps; an agent that has made its steps leaves, so that the others continue without it.
 *
 * @throws DmEnvRpcError of origin `connection` if the server cannot be reached or is lost, `server` if it
 * refuses a request, such as a join of an unknown world.
 * @throws TensorError if the server sends a value that does not fit its own specs.
 * @example
 * const summary = await playRandomly({ address: "127.0.0.1:8980", agents: 4, steps: 1000, seed: 1n });
 * console.log(summaryText(summary));
 */
export async function playRandomly(options: PlayOptions): Promise<Summary> {
  const { address, signal } = options;
  await using host = await connect(address, { signal });
  if (options.world !== undefined) {
    return await playIn(options.world, options);
  }
  const world = await host.createWorld({ signal });
  let summary: Summary;
  try {
    summary = await playIn(world, options);
  } catch (error) {
    // Best effort: the play's own error is more useful than a failed destroy.
    await host.destroyWorld(world, { timeoutMs: 2_000 }).catch(() => undefined);
    throw error;
  }
  await host.destroyWorld(world, { timeoutMs: 10_000 });
  return summary;
}

async function playIn(world: string, options: PlayOptions): Promise<Summary> {
  const { address, agents, signal, observations } = options;
  const tallies = Array.from({ length: agents }, (_, agent) => new Tally(agent));
  const policies: Policy[] = [];
  const join = remoteSlots(address, { world, observations, reward: rewardOf });
  await using vector = await vectorize(
    agents,
    async (request) => {
      const environment = await join(request);
      const { slot } = request;
      policies[slot] = randomPolicy(environment, randomSource(options.seed, slot));
      return environment;
    },
    // Agents of one world may have different observation specs. Each continues when its response has arrived, and
    // a failure ends the play.
    { stack: false, batchSize: 1, restart: "never", signal },
  );
  const expectedSteps = options.steps * agents;
  options.onStart?.({ expectedSteps, agents: tallies });
  const began = performance.now();
  await playAll(vector, policies, tallies, options);
  const seconds = (performance.now() - began) / 1_000;
  return { world, ...played(tallies, options.seed, seconds, expectedSteps) };
}
