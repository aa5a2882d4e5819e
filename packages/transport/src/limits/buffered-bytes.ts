// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ListenLimits } from "./listen-limits.ts";

/** A stalled message is looked at this often before its stream is ended. */
const stallChecks = 4;

/** The limits on what a listener holds of messages that nobody has taken yet. */
export type BufferLimits = Pick<
  ListenLimits,
  "maxBufferedBytes" | "maxBufferedBytesPerConnection" | "stalledMessageMs"
>;

/** What the streams of one connection hold together. */
export interface ConnectionBytes {
  bytes: number;
}

/** A stream as the account sees it. */
export interface ByteHolder {
  /** Whether the rest of a message is waited for: what is held can grow by the peer alone. */
  readonly isWaitingForPeer: boolean;
  fail(error: Error): void;
}

/** What one stream holds. */
export interface ByteAccount {
  /** Says how much it is now; ends the stream, or the one that holds most, past a limit. */
  hold(bytes: number): void;
}

interface Entry {
  readonly holder: ByteHolder;
  held: number;
  /** What was held when it was last looked at, and how often in a row that was the same. */
  seen: number;
  stalled: number;
}

/**
 * The bytes of messages that a listener has received and that nobody has taken yet: those that
 * are not whole, are being inflated, or wait behind one that is not answered.
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

  /** Stops looking for stalled messages. */
  stop(): void {
    clearInterval(this.#timer);
  }

  #check(entry: Entry, connection: ConnectionBytes): void {
    const { maxBufferedBytes, maxBufferedBytesPerConnection } = this.#limits;
    // What a stream holds alone has limits of its own: one message always fits.
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

  /** So that whoever fills the memory makes room, and not whoever comes next. */
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
            `a message was begun and nothing more of it came for ${this.#limits.stalledMessageMs} ms; send messages whole (limit: stalledMessageMs)`,
          ),
        );
      }
    }
  }
}

function tooMuch(most: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "RESOURCE_EXHAUSTED",
    `expected of messages that are not whole, or wait for others, ${most}, received more; send less at once, or on more connections`,
  );
}
