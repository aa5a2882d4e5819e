// SPDX-License-Identifier: Apache-2.0
import { ForagingError } from "./errors.ts";
import { maxLevel, maxNameLength } from "./limits.ts";
import { integer } from "./settings.ts";

/** Key of an agent; the simulation only compares it. */
export type AgentKey = string | number | bigint;

/** Options that an agent may give when it joins. */
export interface JoinOptions {
  /** Level, 1…85, in every sequence. Default: drawn, or the layout's. */
  readonly level?: number | undefined;
  /** Name in pictures, at most 64 characters. Default: `agent 1`, … by slot. */
  readonly name?: string | undefined;
}

/** The state of a joined agent; row, col and level are valid only on the board. */
export interface Forager {
  readonly name: string;
  /** Its row in the `agents` observation, stable while it is joined. */
  readonly slot: number;
  readonly fixedLevel: number | undefined;
  onBoard: boolean;
  row: number;
  col: number;
  level: number;
  /** Reward of the last tick, a float32. */
  reward: number;
  /** Scratch of one tick: the claimed cell, and true if the agent loads. */
  destination: number;
  loading: boolean;
}

/** Joined agents; `inOrder` is in the order of joining, in which they are processed. */
export interface Roster<Agent extends AgentKey> {
  readonly inOrder: Forager[];
  readonly byKey: Map<Agent, Forager>;
  readonly takenSlots: Set<number>;
  lowestFreeSlot: number;
}

/** Creates an empty roster. */
export function createRoster<Agent extends AgentKey>(): Roster<Agent> {
  return { inOrder: [], byKey: new Map(), takenSlots: new Set(), lowestFreeSlot: 0 };
}

/**
 * Adds an agent in the lowest free slot, off the board.
 *
 * @throws {ForagingError} `already-joined`, `world-full`, or `invalid-setting` for its options.
 */
export function addForager<Agent extends AgentKey>(
  roster: Roster<Agent>,
  agent: Agent,
  maxAgents: number,
  options: JoinOptions,
): Forager {
  if (roster.byKey.has(agent)) {
    throw new ForagingError(
      "already-joined",
      `join: expected a new agent, received ${String(agent)}, which has joined; let it leave first`,
    );
  }
  if (roster.inOrder.length >= maxAgents) {
    throw new ForagingError(
      "world-full",
      `join: expected at most ${maxAgents} agents (max_agents), received one more; wait until one leaves or create a larger world`,
    );
  }
  const fixedLevel =
    options.level === undefined ? undefined : integer("level", options.level, 1, maxLevel);
  const slot = roster.lowestFreeSlot;
  const forager: Forager = {
    name: checkedName(options.name ?? `agent ${slot + 1}`),
    slot,
    fixedLevel,
    onBoard: false,
    row: 0,
    col: 0,
    level: 0,
    reward: 0,
    destination: 0,
    loading: false,
  };
  roster.inOrder.push(forager);
  roster.byKey.set(agent, forager);
  roster.takenSlots.add(slot);
  while (roster.takenSlots.has(roster.lowestFreeSlot)) {
    roster.lowestFreeSlot++;
  }
  return forager;
}

/** Removes an agent and frees its slot; it must be off the board already. */
export function dropForager<Agent extends AgentKey>(roster: Roster<Agent>, agent: Agent): void {
  const forager = findForager(roster, agent);
  roster.byKey.delete(agent);
  roster.inOrder.splice(roster.inOrder.indexOf(forager), 1);
  roster.takenSlots.delete(forager.slot);
  roster.lowestFreeSlot = Math.min(roster.lowestFreeSlot, forager.slot);
}

/**
 * Returns the state of a joined agent.
 *
 * @throws {ForagingError} `unknown-agent`: it has not joined, or has left.
 */
export function findForager<Agent extends AgentKey>(roster: Roster<Agent>, agent: Agent): Forager {
  const forager = roster.byKey.get(agent);
  if (forager !== undefined) {
    return forager;
  }
  throw new ForagingError(
    "unknown-agent",
    `expected an agent that has joined, received ${String(agent)}; join it first`,
  );
}

function checkedName(name: unknown): string {
  if (typeof name === "string" && name.length <= maxNameLength) {
    return name;
  }
  const received = typeof name === "string" ? `${name.length} characters` : String(name);
  throw new ForagingError(
    "invalid-setting",
    `name: expected a string of at most ${maxNameLength} characters, received ${received}; shorten it or leave it out`,
  );
}
