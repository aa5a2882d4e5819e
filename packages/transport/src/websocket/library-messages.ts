// SPDX-License-Identifier: Apache-2.0
import type { Malformed } from "@dm-env-rpc/tensor-codec/wire";
import { type Arriving, checkedBytes } from "../assembly/assembly.ts";
import { checkInTurns } from "../assembly/check-in-turns.ts";
import type { CheckTurns } from "../internal/turns/thread-share.ts";
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
 * which the `FrameReader` leaves everything to the library. A message above 64 KiB is checked first, in turns.
 */
export class LibraryMessages {
  readonly #options: LibraryMessagesOptions;
  /** The message that is checked. */
  #checked: Buffer | undefined;

  constructor(options: LibraryMessagesOptions) {
    this.#options = options;
  }

  /** Bytes of the message that is checked. */
  get bytes(): number {
    return this.#checked?.length ?? 0;
  }

  /** True while a message is checked. */
  get isChecking(): boolean {
    return this.#checked !== undefined;
  }

  push(message: Buffer): void {
    const { arriving, turns, events, onCheck } = this.#options;
    if (message.length <= checkedBytes) {
      events.onBinary(message, 0, message.length);
      return;
    }
    this.#checked = message;
    onCheck();
    checkInTurns({
      message,
      check: arriving(message.length),
      turns,
      isDropped: () => this.#checked !== message,
      onChecked: (refusal) => this.#passOn(message, refusal),
    });
  }

  /** Drops the message that is checked. */
  close(): void {
    this.#checked = undefined;
  }

  #passOn(message: Buffer, refusal: Malformed | undefined): void {
    if (this.#checked !== message) {
      return;
    }
    this.#checked = undefined;
    const { events, onChecked } = this.#options;
    if (refusal === undefined) {
      events.onBinary(message, 0, message.length);
    } else {
      events.onRefusal(refusal);
    }
    onChecked();
  }
}
