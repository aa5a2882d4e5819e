// SPDX-License-Identifier: Apache-2.0
import type { DynamicAction, DynamicObservation, TimeStep } from "@dm-env-rpc/client";
import type { Unstacked, VectorEnvironment } from "@dm-env-rpc/client/vector";
import type { Policy } from "./policy.ts";
import type { Tally } from "./tally.ts";

/** Agents as slots, each of which goes its own way. */
export type Agents = VectorEnvironment<DynamicAction, DynamicObservation, Unstacked>;

/** How long agents play, and who watches. */
export interface PlayAllOptions {
  readonly steps: number;
  readonly signal?: AbortSignal | undefined;
  readonly onTimeStep?:
    | ((agent: number, step: TimeStep<DynamicObservation>) => Promise<void> | undefined)
    | undefined;
}

const closeTimeoutMs = 1_000;

/**
 * Lets all agents play, each as soon as its answer is there. One that has made its steps leaves. The first
 * that fails ends the others, and its error is the one thrown.
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
  /** How many agents are stepping. */
  let open = 0;
  /** Agents that are waiting for whoever watches, or leaving. */
  const others = new Set<Promise<void>>();

  // A step may wait for other agents, who may never come: closing ends the wait.
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
      const { ids, timeSteps, failures } = await vector.recv();
      open -= ids.length;
      for (const [row, agent] of ids.entries()) {
        const step = timeSteps[row];
        if (step) {
          stepped(agent, step);
        } else {
          throw failures[row] ?? new Error(`agent ${agent} made no step`);
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
