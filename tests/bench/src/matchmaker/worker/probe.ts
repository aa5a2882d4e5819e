// SPDX-License-Identifier: Apache-2.0

/** Returns the element at a share of the sorted values; undefined without values. */
export function quantileOf(values: readonly number[], share: number): number | undefined {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

const perSecond = 200;

/** Makes a call at a fixed rate, whether or not earlier ones have been answered, and measures how long each takes. */
export class Probe {
  readonly times: number[] = [];
  /**
   * CPU time of this thread between two turns of the event loop, in ms. On a quiet machine this is the time for which the
   * loop was blocked.
   */
  readonly held: number[] = [];
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #pending = new Set<Promise<void>>();

  constructor(call: () => Promise<unknown>) {
    // A call that the event loop made late counts from the time at which it was due.
    let due = performance.now();
    let cpu = process.threadCpuUsage();
    this.#timer = setInterval(() => {
      const { user, system } = process.threadCpuUsage(cpu);
      cpu = process.threadCpuUsage();
      this.held.push((user + system) / 1_000);
      for (; due <= performance.now(); due += 1_000 / perSecond) {
        const dueMs = due;
        const answered: Promise<void> = call().then(() => {
          this.times.push(performance.now() - dueMs);
          this.#pending.delete(answered);
        });
        this.#pending.add(answered);
      }
    }, 1_000 / perSecond);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#pending);
  }
}

/** Measures the CPU time of this process. */
export function startUsage(): () => { readonly cpuMs: number; readonly wallMs: number } {
  const cpu = process.cpuUsage();
  const began = performance.now();
  return () => {
    const { user, system } = process.cpuUsage(cpu);
    return { cpuMs: (user + system) / 1_000, wallMs: performance.now() - began };
  };
}
