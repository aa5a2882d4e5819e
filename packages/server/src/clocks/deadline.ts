// SPDX-License-Identifier: Apache-2.0
import type { DeadlineOptions, SequenceControl } from "../definition/clock.ts";

/** Deadline of the agents that others wait for. */
export interface Deadline {
  /** Starts the deadline, unless it has started or none is configured. */
  arm(): void;
  disarm(): void;
}

/** Creates the deadline of a clock; `expired` is called when it passes. */
export function deadlineOf(
  sequence: Pick<SequenceControl, "after">,
  { deadlineMs }: DeadlineOptions,
  expired: () => void,
): Deadline {
  let cancel: (() => void) | undefined;
  const over = (): void => {
    cancel = undefined;
    expired();
  };
  return {
    arm(): void {
      if (deadlineMs !== undefined) {
        cancel ??= sequence.after(deadlineMs, over);
      }
    },
    disarm(): void {
      cancel?.();
      cancel = undefined;
    },
  };
}

/** Returns true if the world advances without the step of an agent that misses the deadline. */
export function goesOn({ onMissedDeadline }: DeadlineOptions): boolean {
  return onMissedDeadline === "default-action" || onMissedDeadline === "repeat-last";
}
