// SPDX-License-Identifier: Apache-2.0
import type { ReportedWorld } from "../model.ts";

/** Whether nobody is in a world, nor on the way in: an agent's seat is taken a moment before the agent has joined. */
export function isEmpty({ agents, tickets }: ReportedWorld): boolean {
  return agents === 0 && tickets.length === 0;
}
