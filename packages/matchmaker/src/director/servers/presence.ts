// SPDX-License-Identifier: Apache-2.0
import type { ReportedWorld } from "../../model.ts";

/**
 * Returns true if no agent is in a world or joining it: a joining agent has taken its seat, and is
 * not counted in `agents` yet.
 */
export function isEmpty({ agents, tickets }: ReportedWorld): boolean {
  return agents === 0 && tickets.length === 0;
}
