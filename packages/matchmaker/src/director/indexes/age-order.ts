// SPDX-License-Identifier: Apache-2.0
import { byTurn, type WaitingTicket } from "../../functions/match-function.ts";

/**
 * Tickets in matching order (by priority, then age), updated with each change of a ticket: a tick
 * without changes costs nothing.
 */
export class AgeOrder {
  readonly #tickets = new Map<string, WaitingTicket>();
  /** All tickets in matching order; undefined after a change. */
  #list: readonly WaitingTicket[] | undefined = [];
  /**
   * True while the map iterates in matching order: adding a ticket that sorts last keeps the order,
   * adding any other breaks it.
   */
  #isInOrder = true;
  #last: WaitingTicket | undefined;

  add(ticket: WaitingTicket): void {
    const isLast = this.#last === undefined || byTurn(this.#last, ticket) < 0;
    if (isLast) {
      this.#last = ticket;
    } else {
      this.#isInOrder = false;
    }
    this.#tickets.set(ticket.id, ticket);
    this.#list = undefined;
  }

  delete(id: string): void {
    if (this.#tickets.delete(id)) {
      this.#list = undefined;
    }
  }

  has(id: string): boolean {
    return this.#tickets.has(id);
  }

  get size(): number {
    return this.#tickets.size;
  }

  /** Tickets in matching order: the same array until a ticket is added or removed. */
  get list(): readonly WaitingTicket[] {
    if (this.#list !== undefined) {
      return this.#list;
    }
    const list = [...this.#tickets.values()];
    if (!this.#isInOrder) {
      list.sort(byTurn);
      this.#tickets.clear();
      for (const ticket of list) {
        this.#tickets.set(ticket.id, ticket);
      }
      this.#isInOrder = true;
    }
    this.#last = list.at(-1);
    this.#list = list;
    return list;
  }
}
