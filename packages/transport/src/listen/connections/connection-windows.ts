// SPDX-License-Identifier: Apache-2.0
import type { ServerHttp2Session } from "node:http2";
import { windowBytes } from "../../limits/limits.ts";

/** Size of the window that several connections of a network share. */
const sharedBytes = 1024 * 1024;

/** Smallest window of a connection. Every HTTP/2 connection begins with it (RFC 9113, section 6.9.2). */
const leastBytes = 65_535;

type Connection = Pick<ServerHttp2Session, "destroyed" | "setLocalWindowSize">;

/**
 * Flow-control windows of a listener's connections.
 *
 * In one turn of the event loop, everything that a connection has received is read, up to 2 MB. Meanwhile, all other
 * streams wait: 1 to 7 ms for each megabyte. The connections of a network therefore share a window, so that a peer
 * cannot extend a turn by opening more connections.
 */
export class ConnectionWindows {
  readonly #byNetwork = new Map<string, Set<Connection>>();

  /**
   * Sets the window of a connection, and changes the windows of the other connections of its network.
   *
   * @returns A function to call when the connection has closed.
   */
  add(network: string, connection: Connection): () => void {
    const connections = this.#byNetwork.get(network) ?? new Set();
    this.#byNetwork.set(network, connections);
    const before = windowOf(connections.size);
    connections.add(connection);
    const share = windowOf(connections.size);
    for (const changed of share === before ? [connection] : connections) {
      resize(changed, share);
    }
    return () => this.#remove(network, connections, connection);
  }

  #remove(network: string, connections: Set<Connection>, connection: Connection): void {
    const before = windowOf(connections.size);
    connections.delete(connection);
    const share = windowOf(connections.size);
    if (share !== before) {
      for (const changed of connections) {
        resize(changed, share);
      }
    }
    if (connections.size === 0) {
      this.#byNetwork.delete(network);
    }
  }
}

/** Returns the window of each of `count` connections. It changes only when `count` passes a power of two. */
function windowOf(count: number): number {
  return count <= 1
    ? windowBytes
    : Math.max(leastBytes, sharedBytes / 2 ** Math.ceil(Math.log2(count)));
}

function resize(connection: Connection, bytes: number): void {
  if (!connection.destroyed) {
    connection.setLocalWindowSize(bytes);
  }
}
