// SPDX-License-Identifier: Apache-2.0
import { byTurn, type WaitingTicket } from "../../functions/match-function.ts";

/**
 * Tickets by priority and age, updated with each change of a ticket: a tick without changes costs
 * nothing.
 */
export class AgeOrder {
  readonly #tickets = new Map<string, WaitingTicket>();
  /** All tickets, oldest first; undefined after a change. */
  #list: readonly WaitingTicket[] | undefined = [];
  /**
   * True while the map itself is in the order of age: new tickets are, except those that wait
   * again.
   */
  #isInOrder = true;
  #newest: WaitingTicket | undefined;

  add(ticket: WaitingTicket): void {
    const isLast = this.#newest === undefined || byTurn(this.#newest, ticket) < 0;
    if (isLast) {
      this.#newest = ticket;
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

  /** Tickets, oldest first: the same list until one is added or removed. */
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
    this.#newest = list.at(-1);
    this.#list = list;
    return list;
  }
}
