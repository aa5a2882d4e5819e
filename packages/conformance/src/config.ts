// SPDX-License-Identifier: Apache-2.0
import type { Settings } from "@dm-env-rpc/tensor-codec";

/** What a config may call the clock of a server: the clocks that checks tell apart. */
export const clockNames = ["lockstep", "turns", "realtime", "freeRunning", "wakeUp"] as const;

/** How a server's worlds move. */
export type ClockName = (typeof clockNames)[number];

/** Create settings under which something happens after a number of something. */
export interface Counted {
  /** Settings in place of `create`. */
  readonly create: Settings;
  readonly count: number;
}

/** The agents of a world made with `create`. */
export interface AgentCounts {
  /** Agents that must have joined before a first step is answered. Default 1. */
  readonly min?: number | undefined;
  /** Agents that the world has room for. */
  readonly max: number;
}

/** Returns both numbers of the config's `agents`. */
export function agentCounts({ agents = 1 }: ConformanceConfig): {
  readonly min: number;
  readonly max: number;
} {
  const { min = 1, max } = typeof agents === "number" ? { max: agents } : agents;
  return { min, max };
}

/**
 * What a server has, and what of it to use. All of it is optional: what is not said to be
 * there is not checked. In a file of JSON a setting is a value, or has its dtype: `{"int32": 5}`.
 */
export interface ConformanceConfig {
  /** Settings of every create. Its sequences must be long: a hundred steps at least. Default none. */
  readonly create?: Settings | undefined;
  /** Settings of every join. Default none. */
  readonly join?: Settings | undefined;
  /** Settings for a reset of the world. Default none. */
  readonly resetWorld?: Settings | undefined;
  /** How many worlds can be created at a time: `none`, `one` or `many` (default). */
  readonly worlds?: "none" | "one" | "many" | undefined;
  /** A world that the server comes with. */
  readonly premade?: string | undefined;
  /** Names of settings without which a create, or a join, is refused. */
  readonly required?:
    | {
        readonly create?: readonly string[] | undefined;
        readonly join?: readonly string[] | undefined;
      }
    | undefined;
  /** Settings each of which alone, beside the others, makes a create, or a join, be refused. */
  readonly refused?:
    | { readonly create?: Settings | undefined; readonly join?: Settings | undefined }
    | undefined;
  /**
   * The number of agents that a world has room for; default 1. With `min`, that number must have
   * joined before a first step is answered: each check then joins as many beside its own.
   */
  readonly agents?: number | AgentCounts | undefined;
  /** A world into which no more than `count` agents go. */
  readonly fullWorld?: Counted | undefined;
  /** A world whose first sequence needs `count` agents. */
  readonly minAgents?: Counted | undefined;
  /** A world whose sequences end within `count` steps, if agents do nothing. */
  readonly shortSequence?: Counted | undefined;
  /** How time goes by; without it nothing is checked about it. */
  readonly clock?: ClockName | undefined;
  /** What happens to the others when an agent leaves. Default: not checked. */
  readonly onLeave?: "continue" | "block" | "terminate" | undefined;
  /** What happens to a destroy while agents are joined. Default: not checked. */
  readonly onDestroy?: "refuse" | "drain" | "force" | undefined;
  /** What a reset of one agent waits for. Default: not checked. */
  readonly onReset?: "respawn" | "wait" | undefined;
  /** Whether the server has properties: by the `extension`, the `legacy` requests, or `both`. Default none. */
  readonly properties?: "none" | "extension" | "legacy" | "both" | undefined;
  /** Checks that this server is known to fail, by id. One that passes fails the run. */
  readonly knownFailing?: readonly string[] | undefined;
  /** Milliseconds that an answer may take. Default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** Milliseconds in which nothing must come where an answer has to wait. Default 60. */
  readonly quietMs?: number | undefined;
}
