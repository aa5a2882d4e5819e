// SPDX-License-Identifier: Apache-2.0

/** Maximum number of other bytes that the connections of a network may send at once, together. */
const otherBytes = 16 * 1024 * 1024;

/** Other bytes that the connections of a network may send per second, together: plenty for thousands of agents. */
const otherBytesPerSecond = 4 * 1024 * 1024;

interface Network<Connection> {
  /** Other bytes that have arrived faster than `otherBytesPerSecond`. */
  spent: number;
  /** Other bytes since the last check. */
  freshBytes: number;
  /** Other bytes of each connection since the last check. */
  readonly fresh: Map<Connection, number>;
}

/**
 * Sums the "other bytes" of the connections of each network: bytes in addition to messages and the headers of their
 * streams. So a peer cannot flood over many connections that each send a little less than a flood.
 */
export class NetworkFloods<Connection> {
  /** True if a network may soon flood: it had spent a sixteenth of its limit or more at the last check. */
  isAlert = false;
  readonly #networks = new Map<string, Network<Connection>>();
  #checkedAtMs = 0;

  /**
   * Counts the other bytes that have arrived on a connection.
   *
   * @returns True if the network is above its limit. The next check may find no flood, because it first forgives bytes for
   *   the time since the last check.
   */
  count(network: string, connection: Connection, bytes: number): boolean {
    if (bytes <= 0) {
      return false;
    }
    let sums = this.#networks.get(network);
    if (sums === undefined) {
      sums = { spent: 0, freshBytes: 0, fresh: new Map() };
      this.#networks.set(network, sums);
    }
    sums.freshBytes += bytes;
    sums.fresh.set(connection, (sums.fresh.get(connection) ?? 0) + bytes);
    return sums.spent + sums.freshBytes > otherBytes;
  }

  /**
   * Returns the connections to end: of each network that floods, those with the most bytes since the last check, until
   * the bytes of the others are within the limit.
   *
   * @param nowMs Time of a monotonic clock.
   */
  check(nowMs: number): Connection[] {
    const elapsedMs = nowMs - this.#checkedAtMs;
    this.#checkedAtMs = nowMs;
    const forgiven = (elapsedMs / 1_000) * otherBytesPerSecond;
    const ended: Connection[] = [];
    this.isAlert = false;
    for (const [network, sums] of this.#networks) {
      sums.spent = Math.max(0, sums.spent - forgiven) + sums.freshBytes;
      this.isAlert ||= sums.spent >= otherBytes / 16;
      if (sums.spent > otherBytes) {
        for (const [connection, bytes] of [...sums.fresh].sort(([, a], [, b]) => b - a)) {
          if (sums.spent <= otherBytes) {
            break;
          }
          ended.push(connection);
          sums.spent -= bytes;
        }
      }
      sums.freshBytes = 0;
      sums.fresh.clear();
      if (sums.spent === 0) {
        this.#networks.delete(network);
      }
    }
    return ended;
  }
}
