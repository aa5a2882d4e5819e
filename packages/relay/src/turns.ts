// SPDX-License-Identifier: Apache-2.0
import type { ThreadShare, TurnKey } from "@dm-env-rpc/transport/internal";

/** Number of messages that a source forwards after a resume, even if the turn is over. */
const messagesPerResume = 32;

/** A stream or a WebSocket that can stop delivering messages. */
export interface Pausable {
  pause(): void;
  resume(): void;
}

/** Pauses a source of messages when the turn of the event loop is over, until the source has its next turn. */
export class Turns {
  /** True while the source waits for its next turn. */
  isWaiting = false;
  /** Number of messages left of `messagesPerResume`. */
  #left = 0;
  readonly #share: ThreadShare;
  readonly #key: TurnKey;
  readonly #source: Pausable;

  constructor(share: ThreadShare, key: TurnKey, source: Pausable) {
    this.#share = share;
    this.#key = key;
    this.#source = source;
  }

  /** Counts a message of the source. */
  count(): void {
    this.#share.countStep();
    if (this.#left > 0) {
      this.#left -= 1;
      return;
    }
    if (!this.#share.isOver || this.isWaiting) {
      return;
    }
    this.isWaiting = true;
    this.#source.pause();
    this.#share.wait(this.#key, () => {
      this.isWaiting = false;
      this.#left = messagesPerResume;
      this.#share.count();
      this.#source.resume();
    });
  }
}
