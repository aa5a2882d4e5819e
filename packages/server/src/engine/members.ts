// SPDX-License-Identifier: Apache-2.0
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { UntypedWorld, UntypedWorldDefinition } from "../definition/world.ts";
import type { ResetBarrier } from "./reset-barrier.ts";
import { errorResponse, keepable } from "./responses.ts";
import type { Seat } from "./seat.ts";
import type { Sequence } from "./sequence.ts";
import type { WorldCalls } from "./world-calls.ts";
import type { WorldObserver } from "./world-observer.ts";

/** What the agents of a world need of it. */
export interface MembersHost {
  readonly definition: UntypedWorldDefinition;
  readonly world: UntypedWorld;
  readonly calls: WorldCalls;
  readonly sequence: Sequence;
  readonly barrier: ResetBarrier;
}

/** The agents that have joined a world, until they are gone from it, for whatever reason. */
export class Members {
  /** In the order of joining. */
  readonly seats: Set<Seat> = new Set();
  readonly #host: MembersHost;
  readonly #observer: WorldObserver;

  constructor(host: MembersHost, observer: WorldObserver) {
    this.#host = host;
    this.#observer = observer;
  }

  /** The author's world has taken an agent; `Sequence.changed` must follow. */
  add(seat: Seat): void {
    const { sequence } = this.#host;
    this.seats.add(seat);
    this.#observer.agentJoined(seat.agent);
    if (sequence.vacancies > 0) sequence.vacancies -= 1;
  }

  /** An agent is gone from the world, which goes on as its policy says. */
  remove(seat: Seat): void {
    if (!this.seats.delete(seat)) return;
    this.#left(seat, seat.gone);
    const { definition, world, calls, sequence, barrier } = this.#host;
    sequence.leave(seat);
    sequence.owed.save();
    calls.sync("leave", () => world.leave?.(seat.agent));
    if (sequence.everOpened) {
      if (definition.onLeave === "block") sequence.vacancies += 1;
      else if (definition.onLeave === "terminate") sequence.interrupt();
    }
    barrier.paid(seat);
    sequence.changed();
    if (this.seats.size === 0) this.#observer.emptied();
  }

  /** Takes an agent out of the world; its outstanding request, and every next one, is answered with the reason. */
  evict(seat: Seat, reason: DmEnvRpcError): void {
    this.#dismiss(seat, reason);
    this.remove(seat);
  }

  /** The world is gone, and with it every place in it. */
  end(reason: DmEnvRpcError, onGone: () => void): void {
    const seats = [...this.seats];
    this.seats.clear();
    for (const seat of seats) this.#left(seat, reason);
    onGone();
    for (const seat of seats) this.#dismiss(seat, reason);
  }

  #dismiss(seat: Seat, reason: DmEnvRpcError): void {
    seat.gone = keepable(reason);
    const reply = seat.pending?.reply ?? seat.resetting?.reply;
    if (seat.phase === "running" && seat.pending !== undefined) this.#host.sequence.waiting -= 1;
    seat.pending = undefined;
    seat.resetting = undefined;
    reply?.(errorResponse(reason));
  }

  #left(seat: Seat, reason: DmEnvRpcError | undefined): void {
    this.#observer.agentLeft(seat.agent, reason);
    seat.onLeft();
  }
}
