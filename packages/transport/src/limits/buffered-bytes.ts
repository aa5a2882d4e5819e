// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ListenLimits } from "./listen-limits.ts";

/** A stalled message is checked this many times before its stream is ended. */
const stallChecks = 4;

/** Limits on the undelivered bytes that a listener buffers. */
export type BufferLimits = Pick<
  ListenLimits,
  "maxBufferedBytes" | "maxBufferedBytesPerConnection" | "stalledMessageMs"
>;

/** Undelivered bytes of the streams of one connection. */
export interface ConnectionBytes {
  bytes: number;
}

/** A stream, as its account uses it. */
export interface ByteHolder {
  /** True while the stream waits for the rest of a message: only the peer can make it grow. */
  readonly isWaitingForPeer: boolean;
  fail(error: Error): void;
}

/** Account of the undelivered bytes of one stream. */
export interface ByteAccount {
  /**
   * Reports the stream's current bytes. Past a limit it ends the stream, or the one that holds the
   * most.
   */
  hold(bytes: number): void;
}

interface Entry {
  readonly holder: ByteHolder;
  held: number;
  /** Bytes held at the last check, and the number of checks in a row with the same bytes. */
  seen: number;
  stalled: number;
}

/**
 * Counts the undelivered bytes of a listener: messages that are incomplete, are being inflated, or
 * wait behind an unanswered request.
 */
export class BufferedBytes {
  readonly #limits: BufferLimits;
  readonly #entries = new Set<Entry>();
  readonly #timer: NodeJS.Timeout | undefined;
  #bytes = 0;

  constructor(limits: BufferLimits) {
    this.#limits = limits;
    const { stalledMessageMs } = limits;
    if (stalledMessageMs > 0) {
      const everyMs = Math.max(1, stalledMessageMs / stallChecks);
      this.#timer = setInterval(() => this.#endStalled(), everyMs).unref();
    }
  }

  /** Opens the account of a stream. */
  open(connection: ConnectionBytes, holder: ByteHolder): ByteAccount {
    const entry: Entry = { holder, held: 0, seen: 0, stalled: 0 };
    return {
      hold: (bytes) => {
        if (bytes === entry.held) {
          return;
        }
        const more = bytes - entry.held;
        entry.held = bytes;
        connection.bytes += more;
        this.#bytes += more;
        if (bytes === 0) {
          this.#entries.delete(entry);
        } else {
          this.#entries.add(entry);
          if (more > 0) {
            this.#check(entry, connection);
          }
        }
      },
    };
  }

  /** Stops checking for stalled messages. */
  stop(): void {
    clearInterval(this.#timer);
  }

  #check(entry: Entry, connection: ConnectionBytes): void {
    const { maxBufferedBytes, maxBufferedBytesPerConnection } = this.#limits;
    // The bytes of a single stream have limits of their own: one message always fits.
    const isShared = connection.bytes > entry.held;
    if (isShared && connection.bytes > maxBufferedBytesPerConnection) {
      const limit = `${maxBufferedBytesPerConnection} bytes (limit: maxBufferedBytesPerConnection)`;
      entry.holder.fail(tooMuch(`the streams of this connection at most ${limit}`));
    }
    if (this.#bytes > maxBufferedBytes) {
      const limit = `${maxBufferedBytes} bytes (limit: maxBufferedBytes)`;
      this.#largest()?.holder.fail(tooMuch(`the streams of this server at most ${limit}`));
    }
  }

  /**
   * Returns the account that holds the most, so that the stream that filled the memory is ended
   * rather than the next one.
   */
  #largest(): Entry | undefined {
    let largest: Entry | undefined;
    for (const entry of this.#entries) {
      if (largest === undefined || entry.held > largest.held) {
        largest = entry;
      }
    }
    return largest;
  }

  #endStalled(): void {
    for (const entry of [...this.#entries]) {
      const isStalled = entry.holder.isWaitingForPeer && entry.seen === entry.held;
      entry.stalled = isStalled ? entry.stalled + 1 : 0;
      entry.seen = entry.held;
      if (entry.stalled >= stallChecks) {
        entry.holder.fail(
          new DmEnvRpcError(
            "DEADLINE_EXCEEDED",
            `message stalled: expected the rest of it within ${this.#limits.stalledMessageMs} ms, received nothing; send messages whole (limit: stalledMessageMs)`,
          ),
        );
      }
    }
  }
}

function tooMuch(most: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "RESOURCE_EXHAUSTED",
    `too many undelivered bytes: expected of incomplete and waiting messages ${most}, received more; send less at once, or on more connections`,
  );
}
