// SPDX-License-Identifier: Apache-2.0

declare const agentIdBrand: unique symbol;

/**
 * An agent in a world, as its author sees it: a small integer, unique among all
 * the agents that ever joined the world, in the order in which they joined.
 */
export type AgentId = number & { readonly [agentIdBrand]: true };

/** State of an agent's sequence: running, at its natural end, or cut short. */
export type SequenceState = "running" | "terminated" | "interrupted";
