// SPDX-License-Identifier: Apache-2.0
import type { Ticket } from "../model.ts";
import type { Replica } from "../replica.ts";

/** Bytes of a ticket besides what its creator wrote into it, as measured. */
const overheadBytes = 700;

/** The memory that tickets take in this process, those included that are being created. */
export class TicketBudget {
  #bytes = 0;

  constructor(replica: Replica) {
    for (const { value } of replica.table("ticket").values()) {
      this.#bytes += ticketBytes(value);
    }
    replica.onChange((change) => {
      if (change.kind !== "ticket") {
        return;
      }
      if (change.before !== undefined) {
        this.#bytes -= ticketBytes(change.before);
      }
      if (change.after !== undefined) {
        this.#bytes += ticketBytes(change.after);
      }
    });
  }

  /** An estimate. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Counts a ticket that is being created. @returns A function that ends that, once. */
  reserve(ticket: Ticket): () => void {
    const bytes = ticketBytes(ticket);
    this.#bytes += bytes;
    return () => {
      this.#bytes -= bytes;
    };
  }
}

/** Estimates the memory of a ticket: two bytes for each character that its creator wrote, one for each of base64. */
export function ticketBytes(ticket: Ticket): number {
  const { doubles, strings, tags } = ticket.search;
  let characters = ticket.id.length + ticket.profile.length;
  for (const name of Object.keys(doubles)) {
    characters += name.length + 16;
  }
  for (const [name, value] of Object.entries(strings)) {
    characters += name.length + value.length + 16;
  }
  for (const tag of tags) {
    characters += tag.length + 8;
  }
  let bytes = overheadBytes + 2 * characters + (ticket.assignment?.joinToken.length ?? 0);
  for (const [name, { typeUrl, value }] of Object.entries(ticket.extensions)) {
    bytes += 2 * (name.length + typeUrl.length + 32) + value.length;
  }
  return bytes;
}
