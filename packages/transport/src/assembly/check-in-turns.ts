// SPDX-License-Identifier: Apache-2.0
import type { ArrivingMessage, Malformed } from "@dm-env-rpc/tensor-codec/wire";
import type { CheckTurns } from "../internal/turns/thread-share.ts";
import { checkedBytes } from "./assembly.ts";

/** A complete message to check. */
export interface TurnedCheck {
  readonly message: Buffer;
  readonly check: ArrivingMessage;
  /** Default: a later turn of the event loop, whatever else waits for it. */
  readonly turns: CheckTurns | undefined;
  /** Returns true once the result of the check no longer matters. */
  readonly isDropped: () => boolean;
  /** Called with the refusal of the message if it has one, also for a message that was dropped. */
  readonly onChecked: (refusal: Malformed | undefined) => void;
}

/** Checks a message, 64 KiB at a time, each in a turn of `turns`. */
export function checkInTurns(options: TurnedCheck, at = 0): void {
  const { message, check, isDropped, onChecked } = options;
  inLaterTurn(options.turns, () => {
    const end = Math.min(at + checkedBytes, message.length);
    const refusal = isDropped() ? undefined : check.add(message, at, end);
    if (refusal === undefined && end < message.length && !isDropped()) {
      checkInTurns(options, end);
    } else {
      onChecked(refusal);
    }
  });
}

function inLaterTurn(turns: CheckTurns | undefined, task: () => void): void {
  if (turns === undefined) {
    setImmediate(task);
    return;
  }
  const { share, key } = turns;
  share.count();
  share.wait(key, () => {
    task();
    share.count();
  });
}
