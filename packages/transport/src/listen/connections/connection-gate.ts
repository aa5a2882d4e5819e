// SPDX-License-Identifier: Apache-2.0
import type { Socket } from "node:net";
import type { RefusalCounts } from "../../internal/counts/refusal-counts.ts";
import { systemTime, type TimeSource } from "../../internal/time/time-source.ts";
import { networkOf } from "../../internal/turns/network-of.ts";
import { networkTurnKey } from "../../internal/turns/network-turns.ts";
import { ThreadShare } from "../../internal/turns/thread-share.ts";
import { type BufferedBytes, connectionBytes } from "../../limits/buffered-bytes.ts";
import type { ListenLimits } from "../../limits/listen-limits.ts";
import { peerOfSocket } from "../requests/process-call.ts";
import type { StreamTurns } from "./stream-turns.ts";

/** Time between the starts of two connections of an address that floods. */
const paceMs = 1_000;

/** The connections of an address no longer wait once this time has passed without a flood. */
const calmMs = 4_000;

/** Maximum time that a connection waits. Most clients have given up by then. */
const patienceMs = 10_000;

/**
 * Maximum number of connections that start in a turn of the event loop. The bytes that they have sent are read in the
 * next turn, so a burst of floods is noticed after this many connections.
 */
const connectionsPerTurn = 32;

/** A connection that waits is no longer read once this many of its bytes have been read. */
const peekBytes = 4 * 1024;

/** Options of a gate. */
export interface GateOptions
  extends Pick<ListenLimits, "maxFloodsPerAddress" | "maxConnectionsPerAddress"> {
  /** Counts the bytes of connections that wait. */
  readonly buffered: BufferedBytes;
  /** Counts the connections that wait. */
  readonly refusals: RefusalCounts;
  /** Delays connections of networks that are not read because too many of their streams wait. */
  readonly turns: Pick<StreamTurns, "startConnection">;
  readonly time?: TimeSource | undefined;
}

/** A network whose connections have ended as floods. */
interface Flooder {
  /** Number of floods since the network was last calm for `calmMs`. */
  floods: number;
  lastFloodMs: number;
  /** Connections that wait, newest last. */
  readonly waiting: Waiting[];
  /** Cancels the timer of the next connection. */
  cancel: () => void;
}

interface Waiting {
  readonly socket: Socket;
  readonly sinceMs: number;
  readonly start: () => void;
}

/**
 * Starts the connections of a listener, a few in each turn of the event loop.
 *
 * A connection that breaks HTTP/2 or floods takes tens of milliseconds before it is ended, and its peer may open the
 * next connection at once. So once more than `maxFloodsPerAddress` connections of an address have ended as floods, only
 * one of its new connections starts per second. The newest connection starts first, because its client is the most
 * likely to be still waiting. Of a connection that waits, only the first bytes are read.
 */
export class ConnectionGate {
  readonly #options: GateOptions;
  readonly #time: TimeSource;
  readonly #share = new ThreadShare(undefined, connectionsPerTurn);
  readonly #flooders = new Map<string, Flooder>();
  #isClosed = false;

  constructor(options: GateOptions) {
    this.#options = options;
    this.#time = options.time ?? systemTime;
  }

  /** Calls `start` when it is the connection's turn. Until then, the caller must not read the socket. */
  admit(socket: Socket, start: () => void): void {
    const network = networkOf(peerOfSocket(socket).address);
    this.#options.turns.startConnection(network, () => this.#admit(network, socket, start));
  }

  #admit(network: string, socket: Socket, start: () => void): void {
    const flooder = this.#flooders.get(network);
    if (flooder !== undefined && flooder.floods > this.#options.maxFloodsPerAddress) {
      this.#options.refusals.count("maxFloodsPerAddress");
      this.#wait(flooder, socket, start);
    } else if (this.#share.isOver) {
      this.#share.wait(networkTurnKey(network), () => this.#admit(network, socket, start));
    } else {
      this.#share.count();
      this.#start(socket, start);
    }
  }

  /** Counts a connection of the address as a flood. */
  countFlood(address: string): void {
    if (this.#options.maxFloodsPerAddress === 0 || this.#isClosed) {
      return;
    }
    const network = networkOf(address);
    let flooder = this.#flooders.get(network);
    if (flooder === undefined) {
      flooder = { floods: 0, lastFloodMs: 0, waiting: [], cancel: () => {} };
      this.#flooders.set(network, flooder);
      this.#nextLater(network, flooder);
    }
    flooder.floods += 1;
    flooder.lastFloodMs = this.#time.now();
  }

  /** Closes those of the given connections that wait. */
  drop(sockets: ReadonlySet<Socket>): void {
    for (const { waiting } of this.#flooders.values()) {
      for (const { socket } of waiting.filter((connection) => sockets.has(connection.socket))) {
        socket.destroy(); // Its "close" removes it from `waiting`.
      }
    }
  }

  /** Closes the connections that wait, and all connections that arrive later. */
  close(): void {
    this.#isClosed = true;
    for (const { waiting, cancel } of this.#flooders.values()) {
      cancel();
      for (const { socket } of waiting.splice(0)) {
        socket.destroy();
      }
    }
    this.#flooders.clear();
  }

  #start(socket: Socket, start: () => void): void {
    if (this.#isClosed) {
      socket.destroy();
    } else if (!socket.destroyed) {
      start();
    }
  }

  #wait({ waiting }: Flooder, socket: Socket, start: () => void): void {
    const stopPeeking = this.#peek(socket);
    const connection: Waiting = {
      socket,
      sinceMs: this.#time.now(),
      start: () => {
        stopPeeking();
        start();
      },
    };
    waiting.push(connection);
    socket.once("close", () => {
      const at = waiting.indexOf(connection);
      if (at >= 0) {
        waiting.splice(at, 1);
      }
    });
    if (waiting.length > this.#options.maxConnectionsPerAddress) {
      waiting.shift()?.socket.destroy();
    }
  }

  /**
   * Reads the first bytes of a socket, because a socket that is not read does not report that its peer has closed it.
   *
   * @returns A function that puts the bytes back.
   */
  #peek(socket: Socket): () => void {
    let peeked: Buffer = Buffer.alloc(0);
    const onReadable = (): void => {
      const chunk: Buffer | null = socket.read();
      if (chunk !== null) {
        peeked = Buffer.concat([peeked, chunk]);
      }
      if (peeked.length >= peekBytes) {
        socket.off("readable", onReadable);
      }
    };
    socket.on("readable", onReadable);
    const account = this.#options.buffered.open(connectionBytes(peerOfSocket(socket).address), {
      isWaitingForPeer: false,
      get unreportedBytes() {
        return peeked.length + socket.readableLength;
      },
      fail: () => socket.destroy(),
    });
    const close = (): void => account.close();
    socket.once("close", close);
    return () => {
      close();
      socket.off("close", close);
      socket.off("readable", onReadable);
      if (peeked.length > 0) {
        socket.unshift(peeked);
      }
    };
  }

  #nextLater(network: string, flooder: Flooder): void {
    flooder.cancel = this.#time.after(paceMs, () => this.#next(network, flooder));
  }

  /** Starts the newest connection that waits, or all waiting connections once the network is calm. */
  #next(network: string, flooder: Flooder): void {
    const { waiting, lastFloodMs } = flooder;
    const nowMs = this.#time.now();
    if (nowMs - lastFloodMs >= calmMs) {
      this.#flooders.delete(network);
      for (const { socket, start } of waiting.splice(0).reverse()) {
        this.admit(socket, start);
      }
      return;
    }
    this.#nextLater(network, flooder);
    const newest = waiting.pop();
    if (newest !== undefined) {
      this.#start(newest.socket, newest.start);
    }
    for (const { socket } of waiting.filter(({ sinceMs }) => nowMs - sinceMs >= patienceMs)) {
      socket.destroy();
    }
  }
}
