// SPDX-License-Identifier: Apache-2.0

/** Other bytes that a connection may send per second: plenty for frames such as WINDOW_UPDATE and PING. */
const otherBytesPerSecond = 1024 * 1024;

/** Bytes of a frame's header (RFC 9113, section 4.1). */
const frameHeaderBytes = 9;

/** Each stream may send this many bytes of headers that do not count as other bytes. */
export const headerBytes: number = 16 * 1024;

/** A refused stream counts as this many other bytes, because refusing it takes about 0.1 ms. */
export const refusedStreamBytes: number = 4 * 1024;

/**
 * Counts the "other bytes" of a connection: bytes in addition to messages and the headers of its streams. Some are forgiven
 * each second, so that only those that arrive fast add up.
 */
export class OtherBytes {
  /** Other bytes that have arrived faster than they were forgiven. */
  spent = 0;
  /** Number of streams opened so far. */
  opened = 0;
  /** Number of streams refused so far. */
  refused = 0;
  /** Identifier of the newest stream. */
  #newestId = 0;
  /** Identifier of the newest stream at the last check. */
  #checkedId = 0;
  /** Number of streams opened since the last check, without those that were refused. */
  #newStreams = 0;
  /**
   * Bytes of DATA received so far. Each frame also adds the 9 bytes of its header, but at most the length of its DATA,
   * so that tiny frames count mostly as other bytes.
   */
  #dataBytes = 0;
  /** Bytes received until the last check, without DATA. */
  #checkedBytes = 0;
  /** Part of the `headerBytes` of all open streams that the checks did not need, because they had nothing left to forgive. */
  #unusedBytes = 0;

  openStream(id: number): void {
    this.opened += 1;
    this.#newestId = id;
    this.#newStreams += 1;
  }

  receiveData(length: number): void {
    this.#dataBytes += length + Math.min(length, frameHeaderBytes);
  }

  /**
   * Counts a stream as refused: its `headerBytes` no longer apply.
   *
   * @param isOpen False if the stream has closed before. Its unused bytes may then be forgotten, so they are not charged.
   */
  refuseStream(id: number, isOpen: boolean): void {
    this.refused += 1;
    this.spent += refusedStreamBytes;
    if (id > this.#checkedId) {
      this.#newStreams -= 1;
    } else if (isOpen) {
      const unused = Math.min(headerBytes, this.#unusedBytes);
      this.#unusedBytes -= unused;
      this.spent += headerBytes - unused;
    }
  }

  /**
   * Counts the bytes since the last check, and forgives some.
   *
   * @param bytesRead Bytes received so far, of all kinds.
   * @param openStreams Number of open streams.
   * @param elapsedMs Time for which bytes are forgiven.
   * @returns The other bytes since the last check, without refused streams; negative if the headers were short.
   */
  check(bytesRead: number, openStreams: number, elapsedMs: number): number {
    const bytes = bytesRead - this.#dataBytes;
    const allowed = this.#newStreams * headerBytes;
    const arrived = bytes - this.#checkedBytes - allowed;
    const spent = this.spent + arrived - (elapsedMs / 1_000) * otherBytesPerSecond;
    this.spent = Math.max(0, spent);
    const unused = this.#unusedBytes + Math.min(Math.max(0, -spent), allowed);
    this.#unusedBytes = Math.min(unused, openStreams * headerBytes);
    this.#checkedBytes = bytes;
    this.#checkedId = this.#newestId;
    this.#newStreams = 0;
    return arrived;
  }
}
