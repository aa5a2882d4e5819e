// SPDX-License-Identifier: Apache-2.0
import { type WaitOptions, waitFor } from "../stream/wait.ts";

/** Wakes waiting callers when something changes. */
export class Changes {
  readonly #waiting = new Set<() => void>();

  /** Number of waiting callers. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Resolves at the next change. A wait that ends early is removed. */
  async next(options: WaitOptions | undefined): Promise<void> {
    let changed: () => void = () => {};
    const coming = new Promise<void>((resolve) => {
      changed = resolve;
    });
    this.#waiting.add(changed);
    try {
      await waitFor(coming, "waiting for an observation", options);
    } finally {
      this.#waiting.delete(changed);
    }
  }

  /** Wakes all waiting callers. */
  announce(): void {
    for (const changed of this.#waiting) {
      changed();
    }
  }
}
