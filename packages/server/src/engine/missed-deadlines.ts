// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { DeadlineOptions } from "../clocks/clock.ts";
import type { Seat } from "./seat.ts";

/** What becomes of an agent that is late. */
export interface LateActions {
  tell(seat: Seat): void;
  evict(seat: Seat, reason: DmEnvRpcError): void;
}

/** The deadlines that agents of a world have missed: one for each beginning or tick that waits for an agent's step. */
export class MissedDeadlines {
  count = 0;
  readonly #deadline: DeadlineOptions;
  readonly #actions: LateActions;
  /** How often what agents wait for has come. */
  #moves = 0;

  constructor(deadline: DeadlineOptions, actions: LateActions) {
    this.#deadline = deadline;
    this.#actions = actions;
  }

  /** What agents wait for has come: a beginning, a tick, or an end. */
  moved(): void {
    this.#moves += 1;
  }

  /** An agent is late. As the policy is `leave`, it is taken out of the world. */
  missed(seat: Seat): void {
    if (seat.missedMove === this.#moves) return;
    seat.missedMove = this.#moves;
    this.count += 1;
    this.#actions.tell(seat);
    const { deadlineMs, onMissedDeadline } = this.#deadline;
    if (onMissedDeadline !== "leave") return;
    this.#actions.evict(
      seat,
      new DmEnvRpcError(
        "DEADLINE_EXCEEDED",
        `this agent did not step within ${deadlineMs} ms and was taken out of the world; join again`,
      ),
    );
  }
}
