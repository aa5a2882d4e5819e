// SPDX-License-Identifier: Apache-2.0
import { type Assignment, hasEnded, type Ticket } from "../../model/model.ts";
import type { Replica } from "../../replica/replica.ts";

/** Measured bytes of a ticket without its creator's data. */
const overheadBytes = 700;

/** Resources that a caller's tickets use. */
interface Account {
  bytes: number;
  /** Tickets that have not ended. */
  open: number;
}

/**
 * Memory of tickets in this process, in total and by caller, including tickets that are being
 * created.
 */
export class TicketBudget {
  #bytes = 0;
  readonly #accounts = new Map<string, Account>();

  constructor(replica: Replica) {
    for (const { value } of replica.table("ticket").values()) {
      this.#add(value, 1);
    }
    replica.onChange((change) => {
      if (change.kind !== "ticket") {
        return;
      }
      if (change.before !== undefined) {
        this.#add(change.before, -1);
      }
      if (change.after !== undefined) {
        this.#add(change.after, 1);
      }
    });
  }

  /** Estimated memory of all tickets, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Returns the resources of a caller's tickets. */
  of(caller: string): Readonly<Account> {
    return this.#accounts.get(caller) ?? { bytes: 0, open: 0 };
  }

  /**
   * Counts a ticket that is being created.
   *
   * @returns A function that stops counting the ticket; call it exactly once.
   */
  reserve(ticket: Ticket): () => void {
    this.#add(ticket, 1);
    return () => this.#add(ticket, -1);
  }

  #add(ticket: Ticket, sign: 1 | -1): void {
    const bytes = sign * ticketBytes(ticket);
    this.#bytes += bytes;
    if (ticket.caller === undefined) {
      return;
    }
    const account = this.#accounts.get(ticket.caller) ?? { bytes: 0, open: 0 };
    account.bytes += bytes;
    account.open += hasEnded(ticket) ? 0 : sign;
    if (account.bytes > 0) {
      this.#accounts.set(ticket.caller, account);
    } else {
      this.#accounts.delete(ticket.caller);
    }
  }
}

/** Estimates the memory of a ticket: two bytes for each character of text, one for each character of base64. */
export function ticketBytes(ticket: Ticket): number {
  const { doubles, strings, tags } = ticket.search;
  let characters = ticket.id.length + ticket.profile.length + (ticket.traceparent?.length ?? 0);
  for (const name of Object.keys(doubles)) {
    characters += name.length + 16;
  }
  for (const [name, value] of Object.entries(strings)) {
    characters += name.length + value.length + 16;
  }
  for (const region of Object.keys(ticket.latenciesMs ?? {})) {
    characters += region.length + 16;
  }
  for (const tag of tags) {
    characters += tag.length + 8;
  }
  let bytes = overheadBytes + 2 * characters + tokensLength(ticket.assignment);
  for (const [name, { typeUrl, value }] of Object.entries(ticket.extensions)) {
    bytes += 2 * (name.length + typeUrl.length + 32) + value.length;
  }
  return bytes;
}

function tokensLength(assignment: Assignment | undefined): number {
  const { joinToken = "", joinTokens = [joinToken] } = assignment ?? {};
  return joinTokens.reduce((sum, { length }) => sum + length, 0);
}
