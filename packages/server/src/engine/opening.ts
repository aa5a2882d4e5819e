// SPDX-License-Identifier: Apache-2.0
import type { DeadlineOptions } from "../clocks/clock.ts";
import { type Deadline, deadlineOf, goesOn } from "../clocks/deadline.ts";
import type { Seat } from "./seat.ts";

/** What the beginning of a sequence needs of the world. */
export interface OpeningHost {
  /** Every joined agent. */
  readonly seats: ReadonlySet<Seat>;
  /** Whether a sequence may begin as soon as its agents are there. */
  mayOpen(): boolean;
  after(delayMs: number, operation: () => void): () => void;
  missed(seat: Seat): void;
  /** Begins a sequence, with these agents in the order of joining. */
  begin(seats: readonly Seat[]): void;
}

/** The barrier of first steps: a sequence begins when every agent that it waits for has sent one (behaviour 60). */
export class Opening {
  readonly #host: OpeningHost;
  readonly #options: DeadlineOptions;
  readonly #deadline: Deadline;
  /** Agents whose first step is outstanding. */
  readonly #ready = new Set<Seat>();
  /** Agents whose first step nobody waits for any more. */
  readonly #excused = new Set<Seat>();

  constructor(host: OpeningHost, options: DeadlineOptions) {
    this.#host = host;
    this.#options = options;
    this.#deadline = deadlineOf(host, options, () => this.#expired());
  }

  /** The first step of an agent is outstanding. */
  arrive(seat: Seat): void {
    seat.phase = "opening";
    this.#ready.add(seat);
    this.#excused.delete(seat);
  }

  /** The first step of an agent is outstanding no more. */
  withdraw(seat: Seat): void {
    this.#ready.delete(seat);
  }

  /** Nobody waits for an agent until it has sent a first step. */
  excuse(seat: Seat): void {
    if (!this.#ready.has(seat)) this.#excused.add(seat);
  }

  isExcused(seat: Seat): boolean {
    return this.#excused.has(seat);
  }

  /** An agent is gone from the world. */
  forget(seat: Seat): void {
    this.#ready.delete(seat);
    this.#excused.delete(seat);
  }

  /** Begins a sequence if every agent that it waits for is there. */
  check(): void {
    const { seats } = this.#host;
    if (this.#ready.size === 0 || !this.#host.mayOpen()) this.disarm();
    else if (this.#ready.size + this.#excused.size < seats.size) this.#deadline.arm();
    else {
      this.disarm();
      const ready = [...this.#ready].sort((a, b) => a.agent - b.agent);
      this.#host.begin(ready);
    }
  }

  disarm(): void {
    this.#deadline.disarm();
  }

  #expired(): void {
    // All of them first: the last that is taken out may begin the sequence.
    const late = [...this.#host.seats].filter(
      (seat) => !this.#ready.has(seat) && !this.#excused.has(seat),
    );
    for (const seat of late) {
      this.#host.missed(seat);
      if (goesOn(this.#options)) this.excuse(seat);
    }
    // Where the late ones were taken out, the beginning has come about by that.
    if (goesOn(this.#options)) this.check();
  }
}
