// SPDX-License-Identifier: Apache-2.0

/**
 * Names why the simulation refuses something, for a caller that maps it to a status code.
 *
 * - `invalid-setting`, `invalid-layout`, `invalid-action`: the argument is wrong.
 * - `unknown-agent`, `already-joined`: the key is not, or is already, one of the joined.
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
 * Tells what was expected, what came, and what to do.
 *
 * Whatever throws it has changed nothing.
 */
export class ForagingError extends Error {
  readonly reason: ForagingErrorReason;

  constructor(reason: ForagingErrorReason, message: string) {
    super(message);
    this.name = "ForagingError";
    this.reason = reason;
  }
}

/** Tells whether a caught value is a {@link ForagingError}, by its shape. */
export function isForagingError(value: unknown): value is ForagingError {
  return value instanceof Error && value.name === "ForagingError" && "reason" in value;
}
