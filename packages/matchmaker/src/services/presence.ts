// SPDX-License-Identifier: Apache-2.0
import { Counts, type TimeSource, toError } from "@dm-env-rpc/transport/internal";
import type { Emit } from "../model/events.ts";
import { hasEnded, type Ticket } from "../model/model.ts";
import type { MatchmakerSettings } from "../model/settings.ts";
import { put, type Replica } from "../replica/replica.ts";
import type { Change } from "../store/store.ts";

/** Time for which changes of followed tickets are collected, to be committed together. */
const collectMs = 50;
/** Tickets per commit. */
const batchSize = 200;
/** Number of checks of all watched tickets within one ticket lease. */
const checksPerLease = 8;

/**
 * Tracks which tickets are followed, that is, watched here or read by their creator. The lease of a
 * followed ticket is renewed before it expires. A ticket whose last watch here has ended is away: it
 * keeps its place, but is not matched until it is followed again.
 */
export class Presence {
  readonly #replica: Replica;
  readonly #settings: MatchmakerSettings;
  readonly #time: TimeSource;
  readonly #emit: Emit;
  /** Open watches by ticket. */
  readonly #watches = new Counts<string>();
  /** Tickets whose presence may have changed; true if the ticket was read. */
  readonly #due = new Map<string, boolean>();
  readonly #stop: () => void;
  #cancelFlush: (() => void) | undefined;
  #cancelCheck = (): void => {};
  #flushing = Promise.resolve();
  #isClosed = false;

  constructor(replica: Replica, settings: MatchmakerSettings, time: TimeSource, emit: Emit) {
    this.#replica = replica;
    this.#settings = settings;
    this.#time = time;
    this.#emit = emit;
    // Another matchmaker may mark a ticket as away although its watch has moved here.
    this.#stop = replica.onChange((change) => {
      if (
        change.kind === "ticket" &&
        change.after !== undefined &&
        this.#watches.of(change.id) > 0
      ) {
        this.#consider(change.after);
      }
    });
    this.#checkWatched();
  }

  /**
   * Counts a watch of a ticket.
   *
   * @returns A function that ends the watch.
   */
  watch(id: string): () => void {
    const end = this.#watches.add(id);
    const ticket = this.#replica.get("ticket", id)?.value;
    if (ticket !== undefined) {
      this.#consider(ticket);
    }
    return () => {
      end();
      if (this.#watches.of(id) === 0) {
        this.#add(id, false);
      }
    };
  }

  /**
   * Records a read of a ticket by its creator. Has no effect unless the ticket waits. Renews the ticket's lease
   * if the ticket is away, or if less than half of the lease is left. So if at most a third of `ticketLeaseMs`
   * passes between two reads, the lease is renewed before less than a sixth of it is left.
   */
  read(ticket: Ticket): void {
    if (ticket.state === "waiting" && this.#isStale(ticket)) {
      this.#add(ticket.id, true);
    }
  }

  /** Stops renewing leases: clients open their watches at another matchmaker. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stop();
    this.#cancelCheck();
    this.#cancelFlush?.();
    await this.#flushing;
  }

  #consider(ticket: Ticket): void {
    if (this.#isStale(ticket)) {
      this.#add(ticket.id, false);
    }
  }

  /** Returns true if following a ticket now would change its record. */
  #isStale({ state, away, aliveUntilMs }: Ticket): boolean {
    if (away === true) {
      return true;
    }
    const leftMs = (aliveUntilMs ?? Number.POSITIVE_INFINITY) - this.#replica.now();
    return state === "waiting" && leftMs < this.#settings.ticketLeaseMs / 2;
  }

  #checkWatched(): void {
    for (const id of this.#watches.keys()) {
      const ticket = this.#replica.get("ticket", id)?.value;
      if (ticket !== undefined) {
        this.#consider(ticket);
      }
    }
    const everyMs = this.#settings.ticketLeaseMs / checksPerLease;
    this.#cancelCheck = this.#time.after(everyMs, () => this.#checkWatched());
  }

  #add(id: string, wasRead: boolean): void {
    if (this.#isClosed) {
      return;
    }
    this.#due.set(id, wasRead || this.#due.get(id) === true);
    this.#cancelFlush ??= this.#time.after(collectMs, () => {
      this.#cancelFlush = undefined;
      this.#flushing = this.#flushing.then(() => this.#flush());
    });
  }

  /** Commits the changes. Never rejects. */
  async #flush(): Promise<void> {
    const due = [...this.#due];
    this.#due.clear();
    for (let start = 0; start < due.length && !this.#isClosed; start += batchSize) {
      const batch = due.slice(start, start + batchSize);
      try {
        if (
          await this.#replica.commit(batch.flatMap(([id, wasRead]) => this.#changeOf(id, wasRead)))
        ) {
          continue;
        }
      } catch (error) {
        this.#emit({ kind: "store-failed", error: toError(error) });
      }
      // The commit conflicted or failed: the batch is tried again.
      for (const [id, wasRead] of batch) {
        this.#add(id, wasRead);
      }
    }
  }

  #changeOf(id: string, wasRead: boolean): Change[] {
    const stored = this.#replica.get("ticket", id);
    if (stored === undefined || hasEnded(stored.value)) {
      return [];
    }
    const { ticketLeaseMs, awayMs } = this.#settings;
    const nowMs = this.#replica.now();
    if (wasRead || this.#watches.of(id) > 0) {
      if (!this.#isStale(stored.value)) {
        return [];
      }
      const followed = { ...stored.value, away: undefined, aliveUntilMs: nowMs + ticketLeaseMs };
      return [put("ticket", id, stored, followed)];
    }
    if (stored.value.away === true) {
      return [];
    }
    const left: Ticket = { ...stored.value, away: true, aliveUntilMs: nowMs + awayMs };
    return [put("ticket", id, stored, left)];
  }
}
