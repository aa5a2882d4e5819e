// SPDX-License-Identifier: Apache-2.0

declare const agentIdBrand: unique symbol;

/**
 * An agent in a world, as its author sees it: a small integer, assigned in the order of joining and
 * never reused in the world.
 */
export type AgentId = number & { readonly [agentIdBrand]: true };

/** State of an agent's sequence: running, at its natural end, or cut short. */
export type SequenceState = "running" | "terminated" | "interrupted";
