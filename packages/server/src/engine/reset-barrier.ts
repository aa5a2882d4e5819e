// SPDX-License-Identifier: Apache-2.0
import type { Seat } from "./seat.ts";
import type { Sequence } from "./sequence.ts";
import type { WorldCalls } from "./world-calls.ts";
import type { WorldSettings } from "./world-settings.ts";

/** What a reset of the world needs of it. */
export interface ResetHost {
  readonly seats: ReadonlySet<Seat>;
  readonly sequence: Sequence;
  readonly calls: WorldCalls;
  readonly resetDeadlineMs: number;
  /** Those of the next sequence. */
  readonly settings: WorldSettings;
}

/**
 * A reset of the world in progress: the agents that were RUNNING are told, each
 * at its next step, before the callers are answered (behaviours 41–44).
 */
export class ResetBarrier {
  readonly #host: ResetHost;
  readonly #debtors = new Set<Seat>();
  readonly #callers: (() => void)[] = [];
  #settings: Record<string, unknown> = {};
  #cancelDeadline: (() => void) | undefined;
  #active = false;

  constructor(host: ResetHost) {
    this.#host = host;
  }

  get active(): boolean {
    return this.#active;
  }

  /**
   * Asks for a reset; callers that come while one is in progress share it.
   *
   * @param done Called when the world is reset.
   */
  request(
    caller: Seat | undefined,
    settings: Readonly<Record<string, unknown>>,
    done: () => void,
  ): void {
    Object.assign(this.#settings, settings);
    this.#callers.push(done);
    const { sequence } = this.#host;
    if (caller !== undefined) {
      sequence.take(caller);
      this.#debtors.delete(caller);
    }
    if (!this.#active) {
      this.#active = true;
      sequence.interrupt();
      for (const seat of this.#host.seats) {
        if (seat.phase === "owed" && !sequence.opening.isExcused(seat)) this.#debtors.add(seat);
      }
      this.#cancelDeadline = this.#host.calls.after(this.#host.resetDeadlineMs, () =>
        this.#finish(),
      );
    }
    this.settle();
    // Whoever waits for a first step of others waits for the reset now, and they are not late.
    if (this.#active) sequence.opening.check();
  }

  /** An agent was told that the old sequence is over, or is gone. */
  paid(seat: Seat): void {
    if (this.#debtors.delete(seat)) this.settle();
  }

  /** Ends the reset if nobody is owed anything. */
  settle(): void {
    if (this.#active && this.#debtors.size === 0) this.#finish();
  }

  #finish(): void {
    this.#cancelDeadline?.();
    this.#cancelDeadline = undefined;
    for (const seat of this.#debtors) this.#host.sequence.opening.excuse(seat);
    this.#debtors.clear();
    this.#active = false;
    const settings = this.#settings;
    this.#settings = {};
    this.#host.settings.change(settings);
    for (const done of this.#callers.splice(0)) done();
    this.#host.sequence.opening.check();
  }

  /** Ends without an answer, because the world is gone. */
  stop(): void {
    this.#cancelDeadline?.();
    this.#debtors.clear();
    this.#callers.length = 0;
    this.#active = false;
  }
}
