// SPDX-License-Identifier: Apache-2.0
import type { ClockSeat, SequenceControl } from "../definition/clock.ts";
import type { Cancel, Outside } from "./outside.ts";
import { isBlocked, type WorldView } from "./state.ts";

/** The decisions of a clock, which the engine carries out. */
export type ClockDecisions = Pick<
  SequenceControl,
  "nextTurn" | "advance" | "answer" | "missed" | "tickLate" | "ticksMissed" | "after"
>;

/**
 * A clock's read-only view of its sequence, with the callbacks for its decisions. It is a class
 * because V8 reads getters of an object literal several times slower.
 */
export class ClockView implements SequenceControl {
  readonly #state: WorldView;
  readonly #outside: Outside;
  readonly nextTurn: ClockDecisions["nextTurn"];
  readonly advance: ClockDecisions["advance"];
  readonly answer: ClockDecisions["answer"];
  readonly missed: ClockDecisions["missed"];
  readonly tickLate: ClockDecisions["tickLate"];
  readonly ticksMissed: ClockDecisions["ticksMissed"];
  readonly after: ClockDecisions["after"];

  constructor(state: WorldView, outside: Outside, decisions: ClockDecisions) {
    this.#state = state;
    this.#outside = outside;
    this.nextTurn = decisions.nextTurn;
    this.advance = decisions.advance;
    this.answer = decisions.answer;
    this.missed = decisions.missed;
    this.tickLate = decisions.tickLate;
    this.ticksMissed = decisions.ticksMissed;
    this.after = decisions.after;
  }

  get running(): ReadonlySet<ClockSeat> {
    return this.#state.running.agents;
  }

  get waiting(): number {
    return this.#state.waiting;
  }

  get blocked(): boolean {
    return isBlocked(this.#state);
  }

  now(): number {
    return this.#outside.now();
  }

  rest(callback: () => void): Cancel {
    return this.#outside.rest(callback);
  }
}
