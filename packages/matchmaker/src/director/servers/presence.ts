// SPDX-License-Identifier: Apache-2.0
import type { ReportedWorld } from "../../model/model.ts";

/**
 * Returns true if no agent is in a world, and none is joining. A joining agent has already taken its seat, but
 * `agents` does not count it yet.
 */
export function isEmpty({ agents, tickets }: ReportedWorld): boolean {
  return agents === 0 && tickets.length === 0;
}
