// SPDX-License-Identifier: Apache-2.0

import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { systemTime, type TimeSource } from "@dm-env-rpc/transport/internal";
import type { Environment } from "../environment/environment.ts";
import { Changes } from "./changes.ts";
import { Channel } from "./channel.ts";
import type { RealtimeEnvironment, RealtimeStep } from "./realtime-environment.ts";

/** Options of `realtime`. */
export interface RealtimeOptions<Action, Observation> {
  /**
   * Action with which a poll requests an observation. Default: an empty action, with which
   * an agent on the clock `realtime` only observes.
   */
  readonly idleAction?: Action | undefined;
  /** Time from a response to the next poll, in ms, unless an action is sent before. Default 0: at once. */
  readonly pollIntervalMs?: number | undefined;
  /**
   * Maximum number of open requests of one environment. One further action waits; a newer one replaces
   * it. Default 4.
   */
  readonly maxInFlight?: number | undefined;
  /** Reads the world's own time from an observation, in milliseconds, for the clock skew. */
  readonly remoteTimeMs?: ((observation: Observation) => number | undefined) | undefined;
  /** Clock. Default: the machine's. */
  readonly time?: TimeSource | undefined;
}

/**
 * Gives environments the semantics of Universe (behaviours 54 to 57): they keep running, whether or
 * not the agent steps; resets return at once; an environment whose sequence has ended begins the next
 * one by itself.
 *
 * The world should run in real time. A world that waits for its agents is stepped as fast as it
 * answers, or every `pollIntervalMs`. While this environment is in use, do not step the given
 * environments directly.
 *
 * @example
 * const universe = throttle(realtime(environment), 15);
 * await universe.reset();
 * const { observationN, rewardN, doneN } = await universe.step([{ move: 1 }]);
 */
export function realtime<Action, Observation>(
  environments: Environment<Action, Observation> | readonly Environment<Action, Observation>[],
  options: RealtimeOptions<Action, Observation> = {},
): RealtimeEnvironment<Action, Observation> {
  const { time = systemTime, pollIntervalMs = 0, maxInFlight = 4, remoteTimeMs } = options;
  // Every action may be omitted, so an empty record fits any environment.
  const idleAction = options.idleAction ?? ({} as Action);
  const changes = new Changes();
  const onChange = (): void => changes.announce();
  const all: readonly Environment<Action, Observation>[] = isList(environments)
    ? environments
    : [environments];
  const channels = all.map(
    (environment) =>
      new Channel(environment, {
        time,
        idleAction,
        pollIntervalMs,
        maxInFlight,
        remoteTimeMs,
        onChange,
      }),
  );
  let takenAt: number | undefined;
  let thinkingMs: number | null = null;
  let closing: Promise<void> | undefined;

  const peek = (): (Observation | null)[] => channels.map(({ observation }) => observation);
  const refuseClosed = (): void => {
    if (closing === undefined) {
      return;
    }
    throw new DmEnvRpcError(
      "FAILED_PRECONDITION",
      "cannot act or reset after close; create another real-time environment",
      { origin: "client" },
    );
  };
  const act = (actions: readonly Action[]): void => {
    refuseClosed();
    if (actions.length !== channels.length) {
      throw wrongCount(channels.length, actions.length);
    }
    if (takenAt !== undefined) {
      thinkingMs = time.now() - takenAt;
    }
    takenAt = undefined;
    channels.forEach((channel, index) => {
      channel.act(actions[index] as Action);
    });
  };
  const take = (): RealtimeStep<Observation> => {
    const taken = channels.map((channel) => channel.take());
    takenAt = time.now();
    return {
      observationN: taken.map(({ observation }) => observation),
      rewardN: taken.map(({ reward }) => reward),
      doneN: taken.map(({ done }) => done),
      info: { n: taken.map(({ info }) => info), thinkingMs, framesMissed: 0 },
    };
  };
  const close = (): Promise<void> => {
    closing ??= Promise.all(channels.map((channel) => channel.close())).then(onChange);
    return closing;
  };
  return {
    size: channels.length,
    reset: async ({ mask } = {}) => {
      refuseClosed();
      channels.forEach((channel, index) => {
        if (mask === undefined || mask[index] === true) {
          channel.reset();
        }
      });
      return peek();
    },
    step: async (actions) => {
      act(actions);
      return take();
    },
    act,
    take,
    peek,
    failures: () => channels.map(({ failure }) => failure),
    next: (wait) =>
      closing !== undefined || channels.every(({ failure }) => failure !== undefined)
        ? Promise.resolve()
        : changes.next(wait),
    close,
    [Symbol.asyncDispose]: close,
  };
}

function isList<T>(value: T | readonly T[]): value is readonly T[] {
  return Array.isArray(value);
}

function wrongCount(expected: number, received: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "INVALID_ARGUMENT",
    `expected an action for each of ${expected} environments, received ${received}`,
    { origin: "client" },
  );
}
