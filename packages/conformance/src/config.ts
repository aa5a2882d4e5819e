// SPDX-License-Identifier: Apache-2.0
import type { Settings } from "@dm-env-rpc/tensor-codec";

/** Names of the clocks that checks distinguish. */
export const clockNames = ["lockstep", "turns", "realtime", "freeRunning", "wakeUp"] as const;

/** The clock of a server's worlds. */
export type ClockName = (typeof clockNames)[number];

/** Create settings, with a count that depends on them. */
export interface Counted {
  /** Settings instead of `create`. */
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
 * Description of the server under test. Every property is optional; checks that need an absent one are skipped.
 * In a JSON file a setting is a plain value, or has a dtype: `{"int32": 5}`.
 */
export interface ConformanceConfig {
  /** Settings of every create. Sequences must have at least a hundred steps. Default none. */
  readonly create?: Settings | undefined;
  /** Settings of every join. Default none. */
  readonly join?: Settings | undefined;
  /** Settings for a reset of the world. Default none. */
  readonly resetWorld?: Settings | undefined;
  /** Number of worlds that can be created at a time. Default `many`. */
  readonly worlds?: "none" | "one" | "many" | undefined;
  /** Name of a world that exists without a create. */
  readonly premade?: string | undefined;
  /** Names of required settings of a create and of a join. */
  readonly required?:
    | {
        readonly create?: readonly string[] | undefined;
        readonly join?: readonly string[] | undefined;
      }
    | undefined;
  /** Invalid settings: each makes a create or a join fail when added to the valid ones. */
  readonly refused?:
    | { readonly create?: Settings | undefined; readonly join?: Settings | undefined }
    | undefined;
  /**
   * Number of agents that a world has room for; default 1. `min` is the number that must have joined before
   * a first step is answered; each check then adds companions to reach it.
   */
  readonly agents?: number | AgentCounts | undefined;
  /** A world with room for `count` agents. */
  readonly fullWorld?: Counted | undefined;
  /** A world whose first sequence needs `count` agents. */
  readonly minAgents?: Counted | undefined;
  /** A world whose sequences end within `count` steps if agents do nothing. */
  readonly shortSequence?: Counted | undefined;
  /** The clock of the server's worlds. Default: not checked. */
  readonly clock?: ClockName | undefined;
  /** Effect of a leave on the other agents. Default: not checked. */
  readonly onLeave?: "continue" | "block" | "terminate" | undefined;
  /** Effect of a destroy while agents are joined. Default: not checked. */
  readonly onDestroy?: "refuse" | "drain" | "force" | undefined;
  /** `wait` if a reset of one agent waits for the end of the sequence. Default: not checked. */
  readonly onReset?: "respawn" | "wait" | undefined;
  /** Access to properties: by the `extension`, the `legacy` requests of 1.0, or `both`. Default `none`. */
  readonly properties?: "none" | "extension" | "legacy" | "both" | undefined;
  /** True if every agent has an environment of its own, which can be joined as a batch. Default false: not checked. */
  readonly batches?: boolean | undefined;
  /** True if a stream can join a world with two seats. Default false: not checked. */
  readonly seats?: boolean | undefined;
  /** Ids of checks that the server is known to fail. The run fails if one of them passes. */
  readonly knownFailing?: readonly string[] | undefined;
  /** Maximum time for a response, in milliseconds. Default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** Time without a response that counts as waiting, in milliseconds. Default 60. */
  readonly quietMs?: number | undefined;
}
