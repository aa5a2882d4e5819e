// SPDX-License-Identifier: Apache-2.0
import type { ReportedWorld } from "../../model.ts";

/**
 * Returns true if no agent is in a world or joining it: an agent's seat is taken a moment before it
 * has joined.
 */
export function isEmpty({ agents, tickets }: ReportedWorld): boolean {
  return agents === 0 && tickets.length === 0;
}
