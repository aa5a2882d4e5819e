// SPDX-License-Identifier: Apache-2.0
import type { Emit } from "../model/events.ts";
import { type FinalState, hasEnded, type Ticket } from "../model/model.ts";
import { type Change, isStoreError, type Lease } from "../store/store.ts";
import type { Replica } from "./replica.ts";

/** A ticket in a final state. */
type EndedTicket = Ticket & { readonly state: FinalState };

/**
 * Commits changes, and emits `ticket-ended` once for each ticket that these changes end. If the response of
 * a commit is lost, the next change of the ticket in the replica shows whether the commit was made.
 */
export class TicketEnds {
  readonly #replica: Replica;
  readonly #emit: Emit;
  readonly #stop: () => void;
  /** Tickets whose end is being committed. */
  readonly #inFlight = new Set<EndedTicket>();
  /** Tickets whose end may or may not have been committed, by id. */
  readonly #unknown = new Map<string, EndedTicket>();

  constructor(replica: Replica, emit: Emit) {
    this.#replica = replica;
    this.#emit = emit;
    this.#stop = replica.onChange((change) => {
      if (change.kind === "ticket") {
        this.#onTicket(change.id, change.after);
      }
    });
  }

  close(): void {
    this.#stop();
  }

  /**
   * Commits changes, as `Replica.commit` does.
   *
   * @returns True if the changes were committed; false after a conflict.
   * @throws StoreError as `Replica.commit` does.
   */
  async commit(changes: readonly Change[], lease?: Lease): Promise<boolean> {
    const ends = changes.flatMap(({ kind, value }) =>
      kind === "ticket" && value !== undefined && hasEnded(value) ? [value] : [],
    );
    for (const end of ends) {
      this.#inFlight.add(end);
    }
    try {
      const isCommitted = await this.#replica.commit(changes, lease);
      for (const end of ends) {
        // The conflict may be with an earlier commit of the same end, whose response was lost.
        if (isCommitted || isSame(this.#replica.get("ticket", end.id)?.value, end)) {
          this.#tell(end);
        }
      }
      return isCommitted;
    } catch (error) {
      if (isStoreError(error, "unavailable")) {
        for (const end of ends) {
          // The replica may have read the commit before the response was lost.
          if (isSame(this.#replica.get("ticket", end.id)?.value, end)) {
            this.#tell(end);
          } else {
            this.#unknown.set(end.id, end);
          }
        }
      }
      throw error;
    } finally {
      for (const end of ends) {
        this.#inFlight.delete(end);
      }
    }
  }

  #onTicket(id: string, ticket: Ticket | undefined): void {
    const end = this.#unknown.get(id);
    if (end === undefined) {
      return;
    }
    // This change decides: if it is not the change that this process tried to commit, the commit was not made.
    this.#unknown.delete(id);
    const isRepeated = [...this.#inFlight].some((next) => next.id === id && isSame(ticket, next));
    if (isSame(ticket, end) && !isRepeated) {
      this.#tell(end);
    }
  }

  #tell({ id, state, reason }: EndedTicket): void {
    this.#emit({ kind: "ticket-ended", ticketId: id, state, reason: reason?.message });
  }
}

function isSame(ticket: Ticket | undefined, end: EndedTicket): boolean {
  return ticket?.state === end.state && ticket.endedMs === end.endedMs;
}
