// SPDX-License-Identifier: Apache-2.0
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { StepRequest } from "@dm-env-rpc/tensor-codec/wire";
import type { ThreadShare, TimeSource } from "@dm-env-rpc/transport/internal";
import type { AgentId } from "../definition/agent.ts";
import type { Awaitable } from "../definition/awaitable.ts";
import type { ObservationChecks } from "../definition/observation-checks.ts";
import type { UntypedWorld, UntypedWorldDefinition } from "../definition/world.ts";
import type { CallLimitsMs } from "./author-calls.ts";
import type { WorldEvent } from "./outside.ts";
import type { AuthorCall, Done, PackedSettings, Reply } from "./requests.ts";
import type { EndBytes } from "./saved-ends.ts";
import type { RowStep, Seat, SeatView, WorldView } from "./state.ts";
import type { WorldCounts } from "./world-counts.ts";
import type { WorldSettingsOptions } from "./world-settings.ts";

/** An agent's place and its world. */
export interface Joined {
  readonly world: JoinedWorld;
  readonly seat: SeatView;
}

/** An agent as spectators see it. */
export interface SpectatedAgent {
  /** Number of the agent in events. */
  readonly agent: AgentId;
  readonly seat: SeatView;
}

/** A world as spectators read it, at any time and without a seat. */
export interface SpectatedWorld {
  readonly name: string;
  readonly definition: UntypedWorldDefinition;
  readonly agentCount: number;
  readonly counts: WorldCounts;
  /** True while a sequence is in progress. */
  readonly isRunning: boolean;
  /** The agents in the order of joining. */
  agents(): Iterable<SpectatedAgent>;
  /**
   * Calls `see` with the author's world when no transition is in progress; with `perAgent`, with the
   * world of one agent. The argument is undefined if that world is gone, or before its first
   * sequence.
   *
   * @param see Must not throw.
   */
  look(agent: AgentId | undefined, see: (world: UntypedWorld | undefined) => void): void;
}

/** A world on a server, either shared by its agents or with a separate world for each agent. */
export interface HostedWorld extends SpectatedWorld {
  /** Creates the author's world; called once, before all other methods. */
  create(done: Done<undefined>): void;
  /**
   * @param onLeft Called once, when the agent has left the world; with the reason unless the agent
   * left by itself.
   * @param key A join with the key of a seat resumes that seat.
   */
  join(settings: PackedSettings, onLeft: Seat["onLeft"], done: Done<Joined>, key?: string): void;
  /** @param callers The seats of the caller, if it has joined this world. */
  resetWorld(callers: readonly SeatView[], settings: PackedSettings, done: Done<undefined>): void;
  /** Destroys the world according to its policy for joined agents. */
  destroy(done: Done<undefined>): void;
  /**
   * Waits until no other transition is in progress, then destroys the world if it has no agents.
   */
  destroyIfEmpty(): void;
  /**
   * Refuses joins and first steps with the reason, and cuts the current sequence short. `done` is
   * called when the sequence is over.
   */
  drain(reason: DmEnvRpcError, done: () => void): void;
  /** Destroys the world, with or without agents, even while an author call is pending. */
  destroyNow(): void;
}

/** A world as its agents use it. */
export interface JoinedWorld extends HostedWorld {
  readonly author: UntypedWorld;
  readonly state: WorldView;
  /** Processes a step; the world's clock decides when it is answered. */
  step(seat: SeatView, request: StepRequest, reply: Reply): void;
  /**
   * Processes the steps of several agents, in order. All steps are checked before the first is
   * processed.
   *
   * @param refuse Receives the error and index of the first refused step; no step is processed
   * then.
   */
  stepAll(steps: readonly RowStep[], refuse: (error: unknown, index: number) => void): void;
  /** Calls back after the transition in progress and all transitions queued before this call. */
  whenIdle(callback: () => void): void;
  reset(seat: SeatView, settings: PackedSettings, reply: Reply): void;
  leave(seat: SeatView, done: Done<undefined>): void;
  /**
   * Handles the loss of the agent's stream: holds its seat and calls `onHeld`, or lets the agent
   * leave.
   */
  drop(seat: SeatView, onHeld: () => void): void;
  /**
   * Removes an agent whose request waits for other agents, and answers that request with an error
   * (behaviour 67).
   */
  leaveIfWaiting(seat: SeatView): void;
  /** Calls an author's function for one request, when no other transition is in progress. */
  call<T>(call: AuthorCall, run: () => Awaitable<T>, done: Done<{ readonly value: T }>): void;
}

/** A world that agents share, as the server owns it. */
export interface SharedWorld extends JoinedWorld {
  /** Returns true if the key's seat is occupied or held. */
  hasSeat(key: string): boolean;
  /** Refuses further joins, and destroys the world when the last agent leaves. */
  destroyWhenEmpty(): void;
  /** Destroys the world, with or without agents, when no other transition is in progress. */
  forceDestroy(): void;
}

/** Options of a world on a server. */
export interface HostOptions extends WorldSettingsOptions {
  readonly name: string;
  /** Shares the thread with the sessions and the other worlds of the server. */
  readonly share: ThreadShare;
  /** Counts the bytes of undelivered ends, also those of the other worlds of the server. */
  readonly endBytes: EndBytes;
  readonly time: TimeSource;
  readonly limits: CallLimitsMs & {
    readonly maxAgentsPerWorld: number;
    readonly maxSlotsPerWorld: number;
    readonly maxElements: number;
  };
  readonly checkObservations: ObservationChecks;
  /** Reports an event; it must not throw. */
  readonly emit: (event: WorldEvent) => void;
}
