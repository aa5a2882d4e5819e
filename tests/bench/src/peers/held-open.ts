// SPDX-License-Identifier: Apache-2.0
import type { Agent } from "./peer.ts";

/** A connection that is held open and does not play. */
export function heldOpen(close: () => Promise<void>): Agent {
  return {
    play: async () => {
      throw new Error("an idle connection cannot play");
    },
    close,
  };
}
