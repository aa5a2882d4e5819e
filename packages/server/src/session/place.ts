// SPDX-License-Identifier: Apache-2.0
import type { ActionObservationSpecs } from "@dm-env-rpc/protocol";
import type { StepRequest } from "@dm-env-rpc/tensor-codec/wire";
import type { Joined, JoinedWorld } from "../engine/hosted-world.ts";
import type { Done, PackedSettings, Reply } from "../engine/requests.ts";
import { expectsEnd, type Seat } from "../engine/state.ts";

/** The place of a stream in a world: one seat, or several. */
export interface Place {
  readonly world: JoinedWorld;
  /** At least one. */
  readonly seats: readonly Readonly<Seat>[];
  readonly specs: ActionObservationSpecs;
  /** True if an agent of the stream has an undelivered end. */
  readonly expectsEnd: boolean;
  step(request: StepRequest, reply: Reply): void;
  reset(settings: PackedSettings, reply: Reply): void;
  leave(done: Done<undefined>): void;
  /**
   * Handles a lost stream: a single seat is held, which `onHeld` reports, or left; several seats
   * are left.
   */
  drop(onHeld: () => void): void;
  /** Removes agents whose request waits for other agents (behaviour 67). */
  leaveIfWaiting(): void;
}

/** The place of a stream with one seat. */
export function placeOf({ world, seat }: Joined): Place {
  return {
    world,
    seats: [seat],
    get specs() {
      return seat.specs.message;
    },
    get expectsEnd() {
      return expectsEnd(seat);
    },
    step: (request, reply) => world.step(seat, request, reply),
    reset: (settings, reply) => world.reset(seat, settings, reply),
    leave: (done) => world.leave(seat, done),
    drop: (onHeld) => world.drop(seat, onHeld),
    leaveIfWaiting: () => world.leaveIfWaiting(seat),
  };
}
