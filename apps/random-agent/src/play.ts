// SPDX-License-Identifier: Apache-2.0
import {
  connect,
  type DynamicObservation,
  type Environment,
  type SignalContext,
  type TimeStep,
} from "@dm-env-rpc/client";
import { remoteSlots, vectorize } from "@dm-env-rpc/client/vector";
import { type FlatSpecs, flattenSpecs, sample, type Tensor } from "@dm-env-rpc/tensor-codec";
import { type Policy, playAll } from "./play-all.ts";
import { type Random, randomSource } from "./random.ts";
import { type AgentTally, Tally, total } from "./tally.ts";

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
  /** Observations to ask for. Default: all, so that a world shows all it can. */
  readonly observations?: readonly string[] | undefined;
  /** Ends the play early: agents leave, and what has been played is the summary. */
  readonly signal?: AbortSignal | undefined;
  /** Called once when all have joined, with numbers that go on counting. */
  readonly onStart?: ((progress: Progress) => void) | undefined;
  /** Called after every step of every agent, which waits for the promise, if it gets one. */
  readonly onTimeStep?:
    | ((agent: number, step: TimeStep<DynamicObservation>) => Promise<void> | undefined)
    | undefined;
}

/** How far a play is, read whenever one likes. */
export interface Progress {
  readonly world: string;
  /** Steps that all agents will make together. */
  readonly expectedSteps: number;
  readonly agents: readonly AgentTally[];
}

/** What was played. */
export interface Summary {
  readonly world: string;
  readonly seed: bigint;
  readonly agents: readonly AgentTally[];
  /** Of all agents together. */
  readonly steps: number;
  readonly sequences: number;
  readonly meanReturn: number | null;
  /** From the first step to the last. */
  readonly seconds: number;
  readonly stepsPerSecond: number;
  /** Whether it was ended before every agent had made its steps. */
  readonly endedEarly: boolean;
}

/**
 * Plays a world of any server with agents that act at random. All join before the first
 * one steps; one that has made its steps leaves, so that the others go on without it.
 *
 * @throws ConnectError when the server cannot be reached or is lost.
 * @throws DmEnvRpcError when the server refuses something, such as a world that is not there.
 * @throws TensorError when the server sends what does not fit its own specs.
 */
export async function playRandomly(options: PlayOptions): Promise<Summary> {
  const { address, signal } = options;
  await using host = await connect(address, { signal });
  if (options.world !== undefined) return await playIn(options.world, options);
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
  options.onStart?.({ world, expectedSteps, agents: tallies });
  const began = performance.now();
  await playAll(vector, policies, tallies, options);
  const seconds = (performance.now() - began) / 1_000;
  const totals = total(tallies);
  return {
    world,
    seed: options.seed,
    agents: tallies.map((tally) => tally.toJSON()),
    ...totals,
    seconds,
    stepsPerSecond: totals.steps / seconds,
    endedEarly: totals.steps < expectedSteps,
  };
}

/** Samples every action of an environment; specs may change with a reset, which nobody does here. */
function randomPolicy(environment: Environment, random: Random): Policy {
  const specs: FlatSpecs = flattenSpecs(environment.specs.actions);
  const entries = Object.entries(specs);
  return () => {
    const action: Record<string, Tensor> = {};
    for (const [name, spec] of entries) action[name] = sample(spec, random);
    return action;
  };
}

/** A server's reward may have any dtype and shape: a number is itself, of a tensor the elements add up. */
function rewardOf({ value }: SignalContext): number {
  if (value === undefined || typeof value === "string") return 0;
  if (typeof value !== "object") return Number(value);
  if (!("data" in value) || value.dtype === "string" || value.dtype === "proto") return 0;
  let sum = 0;
  for (const element of value.data) sum += Number(element);
  return sum;
}
