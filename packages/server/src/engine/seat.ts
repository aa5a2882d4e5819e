// SPDX-License-Identifier: Apache-2.0
import type { EnvironmentStateType } from "@dm-env-rpc/protocol";
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { SpecEntry } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessResponse, Uid, UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import type { AgentId } from "../definition/agent.ts";
import { RewardSum } from "./rewards.ts";
import type { ActionValues, SeatSpecs } from "./seat-specs.ts";

/** Takes the one answer to an outstanding request. */
export type Reply = (response: ProcessResponse) => void;

/** A step that has not been answered yet. */
export interface PendingStep {
  /** Checked; empty when the agent was not RUNNING. */
  readonly actions: ActionValues;
  readonly requested: readonly SpecEntry[];
  readonly reply: Reply;
  /** Whether it is the first of a sequence, which is answered RUNNING. */
  readonly first: boolean;
}

/** The end of a sequence that an agent has not been told yet (behaviours 41 and 61). */
export interface OwedEnd {
  readonly state: EnvironmentStateType;
  /** The final observations, once the world has moved on from them. */
  saved: ReadonlyMap<Uid, UidTensor> | undefined;
}

/**
 * Where an agent stands:
 *
 * - `idle`: not RUNNING, and nothing outstanding;
 * - `opening`: not RUNNING, its first step waits for the sequence to begin;
 * - `running`: RUNNING, in the world's sequence;
 * - `resetting`: its reset waits for the sequence of the others to end;
 * - `owed`: RUNNING as far as it knows, but its sequence is over.
 */
export type SeatPhase = "idle" | "opening" | "running" | "resetting" | "owed";

/** The place of an agent in a world. */
export class Seat {
  readonly agent: AgentId;
  specs: SeatSpecs;
  /** Every setting of the join, with those of later resets. */
  settings: Readonly<Record<string, unknown>>;
  phase: SeatPhase = "idle";
  pending: PendingStep | undefined;
  owed: OwedEnd | undefined;
  /** The reset that waits, and the specs that hold once it is answered. */
  resetting: { readonly reply: Reply; readonly specs: SeatSpecs } | undefined;
  /** The beginning or tick for which it is late, as it was counted. */
  missedMove: number | undefined;
  readonly reward: RewardSum = new RewardSum();
  /** The actions of its last step in this sequence. */
  lastActions: ActionValues | undefined;
  /** Told once, when it is out of the world, however that came. */
  onLeft: () => void = () => {};
  /** Why it has no place in the world any more. */
  gone: DmEnvRpcError | undefined;

  constructor(agent: AgentId, specs: SeatSpecs, settings: Readonly<Record<string, unknown>>) {
    this.agent = agent;
    this.specs = specs;
    this.settings = settings;
  }
}
