// SPDX-License-Identifier: Apache-2.0
import type { EnvironmentStateType } from "@dm-env-rpc/protocol";
import type { UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import type { Observing } from "./observing.ts";
import type { OwedEnd, PendingStep, Seat } from "./seat.ts";

/** The ends of sequences that agents must still be told, each with what they saw then (behaviours 41 and 61). */
export class OwedEnds {
  readonly #observing: Observing;
  /** Agents whose final observations the world still shows. */
  readonly #unsaved = new Set<Seat>();

  constructor(observing: Observing) {
    this.#observing = observing;
  }

  /** The sequence of an agent ends, and it has no step outstanding that could tell it. */
  owe(seat: Seat, state: EnvironmentStateType): void {
    this.#observing.addReward(seat);
    seat.phase = "owed";
    seat.owed = { state, saved: undefined };
    this.#unsaved.add(seat);
  }

  /** What an agent is told at last. */
  observations({ saved }: OwedEnd, seat: Seat, step: PendingStep): readonly UidTensor[] {
    if (saved === undefined) return this.#observing.observe(seat, step.requested);
    return step.requested.map(({ uid }) => saved.get(uid) as UidTensor);
  }

  /** The agent knows, or need not be told: it starts anew. */
  settle(seat: Seat): void {
    this.#unsaved.delete(seat);
    seat.owed = undefined;
    seat.phase = "idle";
    seat.reward.clear();
  }

  /** Keeps what agents are owed, before the world moves on from it. */
  save(): void {
    if (this.#unsaved.size === 0) return;
    for (const seat of this.#unsaved) {
      if (seat.owed) seat.owed.saved = this.#observing.save(seat);
    }
    this.#unsaved.clear();
  }
}
