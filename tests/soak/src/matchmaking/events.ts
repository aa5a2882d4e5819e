// SPDX-License-Identifier: Apache-2.0

/** Fates of a turn: from the request of a match to the end of its sequence. */
export const fates = [
  /** Its sequence was played to the end. */
  "finished",
  /** Its world or the connection to it was lost. */
  "lost",
  /** The other agents of its match did not join, so it left. */
  "alone",
  /** The matchmaker reported that its ticket failed. */
  "failed",
  /** The soak ended while it waited. */
  "given-up",
] as const;

/** A fate of a turn. */
export type Fate = (typeof fates)[number];

/** A line of a process of agents, in any language. */
export interface AgentEvent {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly agent: string;
  /** Number of the agent's turn. */
  readonly turn: number;
  /** `began`: it has made its first step. `moved`: its ticket was assigned again, or waits, while it played. */
  readonly is: "asked" | "assigned" | "began" | "moved" | Fate;
  /** Address of its server, once assigned. */
  readonly address?: string | undefined;
  /** The error, or the state of a ticket that moved. */
  readonly why?: string | undefined;
}

/** A line of a server: an agent joined or left one of its worlds. */
export interface WorldEvent {
  readonly is: "joined" | "left";
  readonly world: string;
  /** Agents that are in the world now, and those it was created for. */
  readonly agents: number;
  readonly seats: number;
  /** The ticket with which the agent joined. */
  readonly ticket: string;
}

/** Results of the hostile caller. */
export interface Flood {
  readonly calls: number;
  /** Tickets that it has created. */
  readonly created: number;
  readonly refused: number;
  /** Calls that failed for another reason. */
  readonly failed: number;
}
