// SPDX-License-Identifier: Apache-2.0
import type { ThreadShare, TurnKey } from "@dm-env-rpc/transport/internal";

/** Number of small messages that a source forwards after a resume, even if the turn is over. */
const messagesPerResume = 32;

/** A message of this many bytes counts as another small one. */
const bytesPerMessage = 4 * 1024;

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
  count(bytes = 0): void {
    if (bytes < bytesPerMessage) {
      this.#share.countStep();
    } else {
      this.#share.count();
    }
    if (this.#left > 0) {
      this.#left -= 1 + Math.floor(bytes / bytesPerMessage);
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
