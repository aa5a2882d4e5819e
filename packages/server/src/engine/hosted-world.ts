// SPDX-License-Identifier: Apache-2.0

import type { DmEnvRpcError, PackedTensor } from "@dm-env-rpc/tensor-codec";
import type { TimeSource } from "@dm-env-rpc/transport/internal";
import type { UntypedWorldDefinition } from "../definition/world.ts";
import type { CallLimits, ServerLimits } from "../host/limits.ts";
import type { ObservationChecks } from "./observing.ts";
import type { Seat } from "./seat.ts";
import type { WorldHost } from "./world-host.ts";
import type { WorldEnd, WorldObserver } from "./world-observer.ts";

/** Told the outcome of a request. */
export type Done<T> = (result: T | DmEnvRpcError) => void;

/** Settings as they came, by name. */
export type PackedSettings = ReadonlyMap<string, PackedTensor>;

/** An agent's place, and the world in which it is. */
export interface Joined {
  readonly host: WorldHost;
  readonly seat: Seat;
}

/** A world as those see it who have not joined it: one that agents share, or one for each agent. */
export interface HostedWorld {
  readonly name: string;
  readonly definition: UntypedWorldDefinition;
  readonly agentCount: number;
  /** Makes the author's world; called once, before everything else. */
  create(done: Done<undefined>): void;
  /** An agent joins. */
  join(settings: PackedSettings, done: Done<Joined>): void;
  /** A reset of the world, by one of its agents or by somebody else. */
  resetWorld(caller: Seat | undefined, settings: PackedSettings, done: Done<undefined>): void;
  /** Destroys the world, as its policy for agents that are joined says. */
  destroy(done: Done<undefined>): void;
  /** Destroys the world if no agent is in it, when nothing else goes on. */
  destroyIfEmpty(): void;
  /**
   * Takes no more agents, begins no more sequences and cuts the present one short;
   * whoever asks is told the reason. `done` when that has happened.
   */
  drain(reason: DmEnvRpcError, done: () => void): void;
  /** Destroys the world whoever is in it, even while a call of the author's code is outstanding. */
  destroyNow(): void;
}

/** What a world on a server is made with. */
export interface HostOptions {
  readonly definition: UntypedWorldDefinition;
  readonly name: string;
  /** The create settings as they came. */
  readonly settings: PackedSettings;
  /** For worlds that nobody gave a `seed`. */
  readonly randomSeed: () => bigint;
  readonly time: TimeSource;
  /** How long a call of the author's code may take, and how many agents there may be. */
  readonly limits: CallLimits & Pick<ServerLimits, "maxAgentsPerWorld" | "maxElements">;
  readonly checkObservations: ObservationChecks;
  readonly observer: WorldObserver;
  /** Told once, when the world is there no more. */
  readonly onGone: (how: WorldEnd) => void;
  /** Told of a failure, before `onGone`. */
  readonly onFailure: (error: DmEnvRpcError) => void;
  /** Goes before the setting `seed`. */
  readonly seed?: bigint;
}
