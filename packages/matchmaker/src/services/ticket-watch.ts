// SPDX-License-Identifier: Apache-2.0
import type { TimeSource } from "@dm-env-rpc/transport/internal";
import type { Ticket } from "../model/model.ts";
import type { Replica } from "../replica/replica.ts";

/** Watches of tickets. */
export class TicketWatch {
  readonly #watchers = new Map<string, Set<() => void>>();
  readonly #replica: Replica;
  readonly #stop: () => void;
  #cancelTimer: () => void = () => {};
  #isClosed = false;

  /** @param everyMs Interval at which a watch of an unchanged ticket calls `isNews`. */
  constructor(replica: Replica, time: TimeSource, everyMs: number) {
    this.#startTimer(time, everyMs);
    this.#replica = replica;
    this.#stop = replica.onChange(({ kind, id }) => {
      if (kind !== "ticket") {
        return;
      }
      for (const wake of this.#watchers.get(id) ?? []) {
        wake();
      }
    });
  }

  /** Ends every watch. */
  close(): void {
    this.#isClosed = true;
    this.#stop();
    this.#cancelTimer();
    this.#wakeAll();
  }

  #startTimer(time: TimeSource, everyMs: number): void {
    this.#cancelTimer = time.after(everyMs, () => {
      this.#wakeAll();
      this.#startTimer(time, everyMs);
    });
  }

  #wakeAll(): void {
    for (const watchers of this.#watchers.values()) {
      for (const wake of watchers) {
        wake();
      }
    }
  }

  /**
   * Yields the current state of a ticket, then each change, until the ticket is deleted. A slow
   * reader misses intermediate states and receives the latest one.
   *
   * @param isNews Returns true if an unchanged ticket is to be yielded again; called every `everyMs`.
   */
  async *follow(
    id: string,
    signal: AbortSignal,
    isNews: (ticket: Ticket) => boolean = () => false,
  ): AsyncGenerator<Ticket, void, undefined> {
    let told: Ticket | undefined;
    let isDue = true;
    let resume = (): void => {};
    const wake = (): void => {
      isDue = true;
      resume();
    };
    const watchers = this.#watchers.get(id) ?? new Set();
    this.#watchers.set(id, watchers.add(wake));
    signal.addEventListener("abort", wake);
    try {
      while (!this.#isClosed && !signal.aborted) {
        if (!isDue) {
          await new Promise<void>((resolve) => {
            resume = resolve;
          });
          continue;
        }
        isDue = false;
        const ticket = this.#replica.get("ticket", id)?.value;
        if (ticket === undefined) {
          return;
        }
        if (ticket !== told || isNews(ticket)) {
          told = ticket;
          yield ticket;
        }
      }
    } finally {
      signal.removeEventListener("abort", wake);
      watchers.delete(wake);
      if (watchers.size === 0) {
        this.#watchers.delete(id);
      }
    }
  }
}
