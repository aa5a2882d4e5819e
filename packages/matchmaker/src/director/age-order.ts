// SPDX-License-Identifier: Apache-2.0
import { byTurn, type WaitingTicket } from "../functions/match-function.ts";

/** Tickets in their turn, by priority and age, which changes with each ticket: a look that finds no change costs nothing. */
export class AgeOrder {
  readonly #tickets = new Map<string, WaitingTicket>();
  /** All of them, the oldest first; undefined after a change. */
  #list: readonly WaitingTicket[] | undefined = [];
  /** True while the map itself is in the order of age: tickets come in it, but for those that wait again. */
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

  /** The tickets, the oldest first: the same list until one comes or goes. */
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
