// SPDX-License-Identifier: Apache-2.0
import type { TimeSource } from "../src/time-source.ts";

/** Time that passes when a test says so. */
export class ManualTime implements TimeSource {
  #now: number;
  #timers: { readonly atMs: number; readonly callback: () => void }[] = [];

  constructor(now = Date.UTC(2030, 0, 1)) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  after(delayMs: number, callback: () => void): () => void {
    const timer = { atMs: this.#now + delayMs, callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** Lets time pass, and what is due happen in its order. */
  advance(ms: number): void {
    const end = this.#now + ms;
    for (;;) {
      const [next] = this.#timers.filter(({ atMs }) => atMs <= end).sort((a, b) => a.atMs - b.atMs);
      if (next === undefined) break;
      this.#timers = this.#timers.filter((other) => other !== next);
      this.#now = Math.max(this.#now, next.atMs);
      next.callback();
    }
    this.#now = end;
  }
}
