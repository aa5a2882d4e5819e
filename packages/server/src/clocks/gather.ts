// SPDX-License-Identifier: Apache-2.0
import type { AgentId } from "../definition/agent.ts";
import type { ActionValues, ClockSeat, DeadlineOptions } from "../definition/clock.ts";

/**
 * Adds the actions of a seat's outstanding step to the actions of a tick. Without an outstanding
 * step, adds the actions of the seat's last step if the policy is `repeat-last`.
 */
export function gather(
  actions: Map<AgentId, ActionValues>,
  { agent, pending, lastActions }: ClockSeat,
  { onMissedDeadline }: DeadlineOptions = {},
): void {
  if (pending !== undefined && !pending.first) {
    actions.set(agent, pending.actions);
  } else if (onMissedDeadline === "repeat-last" && lastActions !== undefined) {
    actions.set(agent, lastActions);
  }
}
