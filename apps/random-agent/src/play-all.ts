// SPDX-License-Identifier: Apache-2.0
import type { DynamicAction, DynamicObservation, TimeStep } from "@dm-env-rpc/client";
import type { Unstacked, VectorEnvironment } from "@dm-env-rpc/client/vector";
import type { Policy } from "./policy.ts";
import type { Tally } from "./tally.ts";

/** Agents as slots that step independently. */
export type Agents = VectorEnvironment<DynamicAction, DynamicObservation, Unstacked>;

/** Options of `playAll`. */
export interface PlayAllOptions {
  readonly steps: number;
  readonly signal?: AbortSignal | undefined;
  readonly onTimeStep?:
    | ((agent: number, step: TimeStep<DynamicObservation>) => Promise<void> | undefined)
    | undefined;
}

const closeTimeoutMs = 1_000;

/**
 * Plays all agents, each as soon as its response has arrived. An agent that has made its steps leaves. The first
 * failure ends all agents and is thrown.
 */
export async function playAll(
  vector: Agents,
  policies: readonly Policy[],
  tallies: readonly Tally[],
  options: PlayAllOptions,
): Promise<void> {
  const { signal } = options;
  let ended = false;
  let failure: { readonly error: unknown } | undefined;
  /** Number of agents with an outstanding step. */
  let open = 0;
  /** Agents that wait for `onTimeStep`, or are leaving. */
  const others = new Set<Promise<void>>();

  // A step may wait for other agents, which may never join: closing ends the wait.
  const end = (): void => {
    ended = true;
    void vector.close({ timeoutMs: closeTimeoutMs });
  };
  const fail = (error: unknown): void => {
    if (!ended) {
      failure = { error };
    }
    end();
  };
  type Step = TimeStep<DynamicObservation>;
  const goOn = async (
    agent: number,
    step: Step,
    watched: Promise<void> | undefined,
  ): Promise<void> => {
    if (watched !== undefined) {
      await watched;
    }
    if (!ended) {
      await next(agent, step);
    }
  };
  const next = (agent: number, step: Step): Promise<void> | undefined => {
    if ((tallies[agent] as Tally).steps >= options.steps) {
      return vector.leave([agent]);
    }
    vector.send([(policies[agent] as Policy)(step)], [agent]);
    open++;
    return undefined;
  };
  const stepped = (agent: number, step: Step): void => {
    tallies[agent]?.add(step);
    const watched = options.onTimeStep?.(agent, step);
    const other = watched === undefined && !ended ? next(agent, step) : goOn(agent, step, watched);
    if (other === undefined) {
      return;
    }
    const done = other.catch(fail).finally(() => others.delete(done));
    others.add(done);
  };

  signal?.addEventListener("abort", end, { once: true });
  try {
    if (signal?.aborted === true) {
      end();
    }
    vector.sendReset();
    open = tallies.length;
    while (open > 0 || others.size > 0) {
      if (open === 0) {
        await Promise.race(others);
        continue;
      }
      const { ids, timeSteps, failures, refusals } = await vector.recv();
      open -= ids.length;
      for (const [row, agent] of ids.entries()) {
        const step = timeSteps[row];
        if (step) {
          stepped(agent, step);
        } else {
          throw failures[row] ?? refusals[row] ?? new Error(`agent ${agent} made no step`);
        }
      }
    }
  } catch (error) {
    fail(error);
  } finally {
    signal?.removeEventListener("abort", end);
  }
  await Promise.all(others);
  if (failure !== undefined) {
    throw failure.error;
  }
}
