// SPDX-License-Identifier: Apache-2.0
import { byTurn, type WaitingTicket } from "./match-function.ts";

/** Returns the number of agents that a ticket is for. */
export function partySizeOf({ partySize = 1 }: Pick<WaitingTicket, "partySize">): number {
  return partySize;
}

/** Returns true if each ticket is for one agent. */
export function areSolos(tickets: readonly WaitingTicket[]): boolean {
  return tickets.every((ticket) => partySizeOf(ticket) === 1);
}

/** Tickets of one party size, in matching order. */
interface Queue {
  readonly size: number;
  readonly tickets: WaitingTicket[];
  next: number;
}

/** A queue of waiting tickets that forms groups with an exact number of agents. */
export class PartyQueue {
  /** Queues by party size, the largest first. */
  readonly #queues: readonly Queue[];
  readonly #used: Set<string>;

  /**
   * @param tickets In matching order.
   * @param used Ids of the tickets that any queue has taken; this queue adds those that it takes.
   */
  constructor(tickets: readonly WaitingTicket[], used: Set<string> = new Set()) {
    const queues = new Map<number, Queue>();
    for (const ticket of tickets) {
      const size = partySizeOf(ticket);
      const queue = queues.get(size) ?? { size, tickets: [], next: 0 };
      queue.tickets.push(ticket);
      queues.set(size, queue);
    }
    this.#queues = [...queues.values()].sort((a, b) => b.size - a.size);
    this.#used = used;
  }

  /**
   * Takes tickets whose agents add up to `agents`, in matching order where possible.
   *
   * @returns Undefined if no tickets add up to that number.
   */
  take(agents: number): WaitingTicket[] | undefined {
    const heads: Head[] = this.#queues
      .filter(({ size }) => size <= agents)
      .map((queue) => ({
        size: queue.size,
        tickets: this.#peek(queue, Math.floor(agents / queue.size)),
        next: 0,
      }));
    const group: WaitingTicket[] = [];
    let room = agents;
    while (room > 0) {
      const head = inMatchingOrder(heads).find((head) => {
        head.next += 1;
        const fits = canAddUp(heads, room - head.size);
        head.next -= 1;
        return fits;
      });
      const ticket = head?.tickets[head.next];
      if (head === undefined || ticket === undefined) {
        return undefined;
      }
      head.next += 1;
      room -= head.size;
      group.push(ticket);
    }
    for (const { id } of group) {
      this.#used.add(id);
    }
    return group;
  }

  /** Returns the first unused tickets of a queue, at most `most`. */
  #peek(queue: Queue, most: number): WaitingTicket[] {
    const found: WaitingTicket[] = [];
    for (let at = queue.next; at < queue.tickets.length && found.length < most; at++) {
      const ticket = queue.tickets[at];
      if (ticket !== undefined && !this.#used.has(ticket.id)) {
        found.push(ticket);
      } else if (at === queue.next) {
        queue.next += 1;
      }
    }
    return found;
  }
}

/** Candidates of one party size in matching order, with the index of the next candidate. */
interface Head {
  readonly size: number;
  readonly tickets: readonly WaitingTicket[];
  next: number;
}

/** Returns the heads that have candidates left, in the matching order of their next candidates. */
function inMatchingOrder(heads: readonly Head[]): Head[] {
  const next = ({ tickets, next }: Head): WaitingTicket | undefined => tickets[next];
  return heads
    .filter((head) => next(head) !== undefined)
    .sort((a, b) => {
      const [one, other] = [next(a), next(b)];
      return one === undefined || other === undefined ? 0 : byTurn(one, other);
    });
}

/** Returns true if the remaining candidates can add up to this number of agents. */
function canAddUp(heads: readonly Head[], agents: number): boolean {
  /** Failed searches: each key combines the index of a head with the remaining number of agents. */
  const failed = new Set<number>();
  const search = (from: number, rest: number): boolean => {
    if (rest === 0) {
      return true;
    }
    const head = heads[from];
    const key = from * (agents + 1) + rest;
    if (head === undefined || rest < 0 || failed.has(key)) {
      return false;
    }
    const most = Math.min(head.tickets.length - head.next, Math.floor(rest / head.size));
    for (let count = most; count >= 0; count--) {
      if (search(from + 1, rest - count * head.size)) {
        return true;
      }
    }
    failed.add(key);
    return false;
  };
  return search(0, agents);
}
