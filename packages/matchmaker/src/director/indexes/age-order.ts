// SPDX-License-Identifier: Apache-2.0
import { byTurn, type WaitingTicket } from "../../functions/match-function.ts";
import { countBefore, visitEdited } from "../../model/sorted-list.ts";

/**
 * Tickets in matching order (by priority, then age). A read updates the order with the tickets that were
 * added or removed after the previous read. So a tick without changes costs nothing.
 */
export class AgeOrder {
  readonly #tickets = new Map<string, WaitingTicket>();
  /** The result of the last read. */
  #list: readonly WaitingTicket[] = [];
  /** Tickets that `#list` lacks, by id. */
  readonly #added = new Map<string, WaitingTicket>();
  /** Tickets of `#list` that have been removed. */
  #removed: WaitingTicket[] = [];

  /** Adds a ticket, which must not be in the order. */
  add(ticket: WaitingTicket): void {
    this.#tickets.set(ticket.id, ticket);
    this.#added.set(ticket.id, ticket);
  }

  delete(id: string): void {
    const ticket = this.#tickets.get(id);
    if (ticket === undefined) {
      return;
    }
    this.#tickets.delete(id);
    if (!this.#added.delete(id)) {
      this.#removed.push(ticket);
    }
  }

  has(id: string): boolean {
    return this.#tickets.has(id);
  }

  get size(): number {
    return this.#tickets.size;
  }

  /** Tickets in matching order. The array stays the same until a ticket is added or removed. */
  get list(): readonly WaitingTicket[] {
    if (this.#added.size === 0 && this.#removed.length === 0) {
      return this.#list;
    }
    const edits = {
      removed: this.#removed,
      added: [...this.#added.values()].sort(byTurn),
      placeOf: (ticket: WaitingTicket): number =>
        countBefore(this.#list, (other) => byTurn(other, ticket) < 0),
    };
    let list: WaitingTicket[] = [];
    visitEdited(this.#list, edits, {
      keep(tickets) {
        // The first range is usually the longest, and a spread copies it fastest.
        if (list.length === 0) {
          list = [...tickets];
          return;
        }
        for (const ticket of tickets) {
          list.push(ticket);
        }
      },
      add(ticket) {
        list.push(ticket);
      },
    });
    this.#added.clear();
    this.#removed = [];
    this.#list = list;
    return list;
  }
}
