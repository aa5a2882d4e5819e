// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import type { TimeSource } from "@dm-env-rpc/transport/internal";

/** Time for which the director may block the event loop. */
const sliceMs = 5;

/** Divides long work into slices, so that calls of agents are processed in between. */
export class Slice {
  readonly #time: TimeSource;
  #beganMs: number;

  constructor(time: TimeSource) {
    this.#time = time;
    this.#beganMs = time.now();
  }

  /** Lets the other work of the process run if the current slice has taken long, and begins the next slice. */
  async next(): Promise<void> {
    if (this.#time.now() - this.#beganMs < sliceMs) {
      return;
    }
    await setImmediate();
    this.#beganMs = this.#time.now();
  }
}
