// SPDX-License-Identifier: Apache-2.0
import type { ArrivingMessage } from "@dm-env-rpc/tensor-codec/wire";
import { type Arriving, checkedBytes } from "../assembly/assembly.ts";
import type { CheckTurns } from "../internal/thread-share.ts";
import type { SocketEvents } from "./websocket-stream.ts";

/** Options of `LibraryMessages`. */
export interface LibraryMessagesOptions {
  readonly arriving: Arriving;
  readonly turns: CheckTurns;
  readonly events: SocketEvents;
  /** Called when the check of a message begins. The WebSocket must not be read until `onChecked` is called. */
  readonly onCheck: () => void;
  readonly onChecked: () => void;
}

/**
 * Passes on the binary messages that the library `ws` has read: those in several frames, and all that follow a frame after
 * which the `FrameReader` leaves everything to the library. A message above 64 KiB is checked first, 64 KiB in a turn.
 */
export class LibraryMessages {
  readonly #options: LibraryMessagesOptions;
  /** Size of the message that is checked; 0 if none is. */
  #size = 0;

  constructor(options: LibraryMessagesOptions) {
    this.#options = options;
  }

  /** Bytes of the message that is checked. */
  get bytes(): number {
    return this.#size;
  }

  /** True while a message is checked. */
  get isChecking(): boolean {
    return this.#size > 0;
  }

  push(message: Buffer): void {
    if (message.length <= checkedBytes) {
      this.#options.events.onBinary(message, 0, message.length);
      return;
    }
    this.#size = message.length;
    this.#options.onCheck();
    this.#checkInTurn(message, this.#options.arriving(message.length), 0);
  }

  /** Drops the message that is checked. */
  close(): void {
    this.#size = 0;
  }

  /** Checks a message from position `at`, in later turns. */
  #checkInTurn(message: Buffer, check: ArrivingMessage, at: number): void {
    const { share, key } = this.#options.turns;
    share.count();
    share.wait(key, () => {
      if (!this.isChecking) {
        return;
      }
      const end = Math.min(at + checkedBytes, message.length);
      const refusal = check.add(message, at, end);
      if (refusal === undefined && end < message.length) {
        this.#checkInTurn(message, check, end);
        return;
      }
      const { events, onChecked } = this.#options;
      this.#size = 0;
      if (refusal === undefined) {
        events.onBinary(message, 0, message.length);
      } else {
        events.onRefusal(refusal);
      }
      share.count();
      onChecked();
    });
  }
}
