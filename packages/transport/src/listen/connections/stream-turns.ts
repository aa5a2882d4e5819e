// SPDX-License-Identifier: Apache-2.0
import type { ServerHttp2Stream } from "node:http2";
import type { TurnKey } from "../../internal/turns/network-turns.ts";
import { ThreadShare } from "../../internal/turns/thread-share.ts";
import { holdEnd } from "./held-end.ts";
import type { SocketReading } from "./socket-reading.ts";

/** Maximum number of streams that start in a turn of the event loop. */
const streamsPerTurn = 8;

/** Once more streams of a network than this wait, its connections are not read until all of them have started. */
const mostWaiting = 128;

/** For each of this many open connections of a network, one more connection that waits may start at a time. */
const openPerStart = 32;

/** A stream that may have to wait. */
export interface StartingStream
  extends Pick<ServerHttp2Stream, "destroyed" | "closed" | "push" | "read"> {
  destroy(): void;
}

/** The connections of an address, or of an IPv6 network. */
interface Network {
  /** In the order in which they are read again. */
  readonly connections: Set<SocketReading>;
  /** Number of streams that wait for a turn. */
  waiting: number;
  isStopped: boolean;
  /** Time of the last stop. */
  stoppedAtMs: number;
  /** Time that earlier stops took, in total. */
  stoppedMs: number;
}

/** The streams of one connection. */
export interface ConnectionTurns {
  /** Calls `begin` when it is the stream's turn: at once, unless many streams start. Drops a stream that is reset before. */
  start(stream: StartingStream, begin: () => void): void;
  /** Returns for how long the connections of the network have not been read so far, in total. */
  stoppedMs(): number;
  /** Called when the connection has closed. */
  close(): void;
}

/**
 * Starts the streams of a listener, a few in each turn of the event loop. Networks take turns, and so do the
 * connections of each network.
 *
 * In one turn, node:http2 parses everything that the connections have received. Those bytes may open thousands of streams.
 * So once many streams of a network wait, none of its connections is read until all of them have started, and its new
 * connections wait (`ConnectionGate`). The connection that opened the last of the streams is then read after the others.
 */
export class StreamTurns {
  readonly #share: ThreadShare;
  readonly #now: () => number;
  readonly #onReadAgain: (network: string) => void;
  readonly #networks = new Map<string, Network>();

  /**
   * @param onReadAgain Called when the connections of a network are read again.
   * @param now A clock, in milliseconds.
   */
  constructor(
    onReadAgain: (network: string) => void = () => {},
    share: ThreadShare = new ThreadShare(undefined, streamsPerTurn),
    now: () => number = () => performance.now(),
  ) {
    this.#onReadAgain = onReadAgain;
    this.#share = share;
    this.#now = now;
  }

  /**
   * Returns how many new connections of a network may start at a time: none while its connections are not read. The more
   * connections are open, the more may start, because many clients can share an address.
   */
  startsAtATime(network: string): number {
    const found = this.#networks.get(network);
    if (found?.isStopped === true) {
      return 0;
    }
    return 1 + Math.floor((found?.connections.size ?? 0) / openPerStart);
  }

  /** Adds a connection. */
  add(key: TurnKey, reading: SocketReading): ConnectionTurns {
    const name = key.network;
    const network = this.#networks.get(name) ?? {
      connections: new Set(),
      waiting: 0,
      isStopped: false,
      stoppedAtMs: 0,
      stoppedMs: 0,
    };
    this.#networks.set(name, network);
    network.connections.add(reading);
    if (network.isStopped) {
      reading.stop();
    }
    return {
      start: (stream, begin) => this.#start(key, network, reading, stream, begin),
      stoppedMs: () =>
        network.stoppedMs + (network.isStopped ? this.#now() - network.stoppedAtMs : 0),
      close: () => {
        network.connections.delete(reading);
        if (network.connections.size === 0) {
          this.#networks.delete(name);
        }
      },
    };
  }

  #start(
    key: TurnKey,
    network: Network,
    reading: SocketReading,
    stream: StartingStream,
    begin: () => void,
  ): void {
    if (!this.#share.isOver) {
      this.#share.count();
      begin();
      return;
    }
    network.waiting += 1;
    if (network.waiting > mostWaiting) {
      this.#stop(network, reading);
    }
    const releaseEnd = holdEnd(stream);
    this.#share.wait(key, () => {
      network.waiting -= 1;
      if (network.waiting === 0 && network.isStopped) {
        network.isStopped = false;
        network.stoppedMs += this.#now() - network.stoppedAtMs;
        for (const stopped of network.connections) {
          stopped.start();
        }
        this.#onReadAgain(key.network);
      }
      if (stream.destroyed || stream.closed) {
        stream.destroy();
        return;
      }
      this.#share.count();
      begin();
      releaseEnd();
    });
  }

  /** Stops the reading of a network's connections. Afterwards, `last` is read again after the others. */
  #stop(network: Network, last: SocketReading): void {
    if (network.isStopped) {
      last.stop(); // node:http2 has started it again.
      return;
    }
    network.isStopped = true;
    network.stoppedAtMs = this.#now();
    network.connections.delete(last);
    network.connections.add(last);
    for (const connection of network.connections) {
      connection.stop();
    }
  }
}
