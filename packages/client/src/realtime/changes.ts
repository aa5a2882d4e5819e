// SPDX-License-Identifier: Apache-2.0
import { type WaitOptions, waitFor } from "../stream/wait.ts";

/** Tells those who wait that something has come. */
export class Changes {
  readonly #waiting = new Set<() => void>();

  /** How many wait. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Resolves with the next change; a wait that is given up is forgotten. */
  async next(options: WaitOptions | undefined): Promise<void> {
    let changed: () => void = () => {};
    const coming = new Promise<void>((resolve) => {
      changed = resolve;
    });
    this.#waiting.add(changed);
    try {
      await waitFor(coming, "an observation", options);
    } finally {
      this.#waiting.delete(changed);
    }
  }

  /** Something has come. */
  announce(): void {
    for (const changed of this.#waiting) {
      changed();
    }
  }
}
