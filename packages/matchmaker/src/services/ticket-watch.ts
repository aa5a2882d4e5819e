// SPDX-License-Identifier: Apache-2.0
import type { TimeSource } from "@dm-env-rpc/transport/internal";
import type { Ticket } from "../model.ts";
import type { Replica } from "../replica.ts";

/** Watchers of tickets. */
export class TicketWatch {
  readonly #watchers = new Map<string, Set<() => void>>();
  readonly #replica: Replica;
  readonly #stop: () => void;
  #cancelLook: () => void = () => {};
  #isClosed = false;

  /** @param everyMs Interval in which watches of unchanged tickets look for news. */
  constructor(replica: Replica, time: TimeSource, everyMs: number) {
    this.#look(time, everyMs);
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
    this.#cancelLook();
    this.#wakeAll();
  }

  #look(time: TimeSource, everyMs: number): void {
    this.#cancelLook = time.after(everyMs, () => {
      this.#wakeAll();
      this.#look(time, everyMs);
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
   * Yields a ticket now and whenever it changes, until it is deleted. A slow reader misses states
   * in between and gets the latest.
   *
   * @param isNews Returns true to yield an unchanged ticket again; called every `everyMs`.
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
    signal.addEventListener("abort", wake, { once: true });
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
