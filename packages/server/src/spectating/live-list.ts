// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { WatchWorldsResponseSchema, type WorldSummary } from "@dm-env-rpc/protocol/spectator";
import type { TimeSource } from "@dm-env-rpc/transport/internal";
import { SharedMessage } from "./shared-message.ts";

/** Time for which viewers share a list: less than the period of the fastest viewers. */
const sharedMs = 30;

/** A list of worlds, which its viewers share. */
export type WorldList = SharedMessage<typeof WatchWorldsResponseSchema>;

/** Options of `LiveList`. */
export interface LiveListOptions {
  readonly summaries: () => WorldSummary[];
  /** Number of worlds, including those without a summary. */
  readonly worldCount: () => number;
  readonly time: TimeSource;
}

/** The list of a server's worlds. All its viewers share each list, whatever their rates. */
export class LiveList {
  readonly #options: LiveListOptions;
  #latest: WorldList | undefined;

  constructor(options: LiveListOptions) {
    this.#options = options;
  }

  /** Returns the latest list, or a new one if `sharedMs` have passed since it was made. */
  current(): WorldList {
    const { summaries, worldCount, time } = this.#options;
    const timeMs = time.now();
    if (this.#latest === undefined || timeMs - this.#latest.message.timeMs >= sharedMs) {
      const list = { timeMs, worlds: summaries(), worldCount: worldCount() };
      this.#latest = new SharedMessage(
        WatchWorldsResponseSchema,
        create(WatchWorldsResponseSchema, list),
      );
    }
    return this.#latest;
  }
}
