// SPDX-License-Identifier: Apache-2.0

/**
 * Reason why the simulation refuses a call, for a caller that maps it to a status code.
 *
 * - `invalid-setting`, `invalid-layout`, `invalid-action`: the argument is wrong.
 * - `unknown-agent`, `already-joined`: the agent has not joined, or has joined already.
 * - `world-full`: `max_agents` have joined; `board-full`: no cell is empty.
 * - `wrong-state`: the call needs a running sequence, or an agent that is on the board.
 */
export type ForagingErrorReason =
  | "invalid-setting"
  | "invalid-layout"
  | "invalid-action"
  | "unknown-agent"
  | "already-joined"
  | "world-full"
  | "board-full"
  | "wrong-state";

/**
 * A refused call; its message names the expected value, the received one and the remedy.
 *
 * A call that throws it has changed nothing.
 */
export class ForagingError extends Error {
  readonly reason: ForagingErrorReason;

  constructor(reason: ForagingErrorReason, message: string) {
    super(message);
    this.name = "ForagingError";
    this.reason = reason;
  }
}

/** Returns true for a {@link ForagingError}, recognized by its shape. */
export function isForagingError(value: unknown): value is ForagingError {
  return value instanceof Error && value.name === "ForagingError" && "reason" in value;
}
