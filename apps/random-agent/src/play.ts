// SPDX-License-Identifier: Apache-2.0
import { connect, type DynamicObservation, type TimeStep } from "@dm-env-rpc/client";
import { remoteSlots, vectorize } from "@dm-env-rpc/client/vector";
import { playAll } from "./play-all.ts";
import { type Policy, randomPolicy, rewardOf } from "./policy.ts";
import { randomSource } from "./random.ts";
import { type AgentTally, type Played, played, Tally } from "./tally.ts";

/** What to play. */
export interface PlayOptions {
  /** `HOST:PORT` of a server. */
  readonly address: string;
  /** How many agents, each with a connection of its own. */
  readonly agents: number;
  /** The world to join. Default: one is created, and destroyed at the end. */
  readonly world?: string | undefined;
  /** Calls of `step` that each agent makes, first steps of sequences included. */
  readonly steps: number;
  /** Seed of the agents' choices; each agent has its own stream of it. */
  readonly seed: bigint;
  /**
   * Observations to ask for; of a world with `legal_actions` that one among them, for agents to act as it allows.
   * Default: all, so that a world shows all it can.
   */
  readonly observations?: readonly string[] | undefined;
  /** Ends the play early: agents leave, and what has been played is the summary. */
  readonly signal?: AbortSignal | undefined;
  /** Called once when all have joined, or look for a match, with numbers that go on counting. */
  readonly onStart?: ((progress: Progress) => void) | undefined;
  /** Called after every step of every agent, which waits for the promise, if it gets one. */
  readonly onTimeStep?:
    | ((agent: number, step: TimeStep<DynamicObservation>) => Promise<void> | undefined)
    | undefined;
}

/** How far a play is, read whenever one likes. */
export interface Progress {
  /** Steps that all agents will make together. */
  readonly expectedSteps: number;
  readonly agents: readonly AgentTally[];
}

/** What was played in one world. */
export interface Summary extends Played {
  readonly world: string;
}

/** A world that agents were sent to. */
export interface MatchedWorld {
  /** Of its server. */
  readonly address: string;
  readonly world: string;
  /** Numbers of the agents that played in it. */
  readonly agents: readonly number[];
}

/** What was played in the worlds of a matchmaker. */
export interface MatchesSummary extends Played {
  readonly worlds: readonly MatchedWorld[];
}

/**
 * Plays a world of any server with agents that act at random. All join before the first
 * one steps; one that has made its steps leaves, so that the others go on without it.
 *
 * @throws DmEnvRpcError of origin `connection` when the server cannot be reached or is lost, `server` when it
 * refuses something, such as a world that is not there.
 * @throws TensorError when the server sends what does not fit its own specs.
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
    // Best effort: the error of the play says more than that of a world that went with it.
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
    // Agents of one world may see different things, of any shape; each goes on when its answer is there, and
    // one that fails ends the play.
    { stack: false, batchSize: 1, restart: "never", signal },
  );
  const expectedSteps = options.steps * agents;
  options.onStart?.({ expectedSteps, agents: tallies });
  const began = performance.now();
  await playAll(vector, policies, tallies, options);
  const seconds = (performance.now() - began) / 1_000;
  return { world, ...played(tallies, options.seed, seconds, expectedSteps) };
}
