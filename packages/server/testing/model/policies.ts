// SPDX-License-Identifier: Apache-2.0
import type { DropPolicy, LeavePolicy } from "../../src/definition/world.ts";
import type { ClockOptions } from "./clock-models.ts";

/** The choices of a world under test. */
export interface Policies {
  readonly clock: ClockOptions;
  readonly onLeave: LeavePolicy;
  readonly onDrop: DropPolicy | undefined;
  readonly onReset: "respawn" | "wait";
  readonly lateEntry: "now" | "next-sequence";
  readonly onDestroy: "refuse" | "drain" | "force";
  readonly resetDeadlineMs: number;
  readonly drainDeadlineMs: number;
}
