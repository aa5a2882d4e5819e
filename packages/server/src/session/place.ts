// SPDX-License-Identifier: Apache-2.0
import type { ActionObservationSpecs } from "@dm-env-rpc/protocol";
import type { StepRequest } from "@dm-env-rpc/tensor-codec/wire";
import type { Joined, JoinedWorld } from "../engine/hosted-world.ts";
import type { Done, PackedSettings, Reply } from "../engine/requests.ts";
import { expectsEnd, type SeatView } from "../engine/state.ts";

/** The place of a stream in a world: one seat, or several. */
export interface Place {
  readonly world: JoinedWorld;
  /** At least one. */
  readonly seats: readonly SeatView[];
  readonly specs: ActionObservationSpecs;
  /** True if the stream has resumed the seat of an earlier stream. */
  readonly isResumed: boolean;
  /** True while an agent of the stream is in a sequence or has an undelivered end. */
  readonly expectsEnd: boolean;
  step(request: StepRequest, reply: Reply): void;
  reset(settings: PackedSettings, reply: Reply): void;
  /** Discards results of the sequences that a reset of the world by this stream has ended. */
  worldWasReset(): void;
  leave(done: Done<undefined>): void;
  /**
   * Handles a lost stream. A single seat may be held; `onHeld` is then called. Otherwise the agents
   * leave.
   */
  drop(onHeld: () => void): void;
  /** Removes agents whose request waits for other agents (behaviour 67). */
  leaveIfWaiting(): void;
}

/** The place of a stream with one seat. A class, because V8 reads an object literal with getters several times slower. */
export class SeatPlace implements Place {
  readonly world: JoinedWorld;
  readonly #seat: SeatView;

  constructor({ world, seat }: Joined) {
    this.world = world;
    this.#seat = seat;
  }

  get seats(): readonly SeatView[] {
    return [this.#seat];
  }

  get specs(): ActionObservationSpecs {
    return this.#seat.specs.message;
  }

  get isResumed(): boolean {
    return this.#seat.isResumed;
  }

  get expectsEnd(): boolean {
    return expectsEnd(this.#seat);
  }

  step(request: StepRequest, reply: Reply): void {
    this.world.step(this.#seat, request, reply);
  }

  reset(settings: PackedSettings, reply: Reply): void {
    this.world.reset(this.#seat, settings, reply);
  }

  worldWasReset(): void {}

  leave(done: Done<undefined>): void {
    this.world.leave(this.#seat, done);
  }

  drop(onHeld: () => void): void {
    this.world.drop(this.#seat, onHeld);
  }

  leaveIfWaiting(): void {
    this.world.leaveIfWaiting(this.#seat);
  }
}
