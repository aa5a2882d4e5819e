// SPDX-License-Identifier: Apache-2.0
import type { Socket } from "node:net";
import type { RefusalCounts } from "../../internal/counts/refusal-counts.ts";
import { systemTime, type TimeSource } from "../../internal/time/time-source.ts";
import { later } from "../../internal/turns/later.ts";
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

/**
 * A connection that waits is no longer read once this many of its bytes have been read. Until then, the gate notices if the
 * client closes it.
 */
const peekBytes = 64 * 1024;

/** Options of a gate. */
export interface GateOptions
  extends Pick<ListenLimits, "maxFloodsPerAddress" | "maxConnectionsPerAddress"> {
  /** Counts the bytes of connections that wait. */
  readonly buffered: BufferedBytes;
  /** Counts the connections that wait because of floods. */
  readonly refusals: RefusalCounts;
  /** The turns of streams, which call `startWaiting` when a network is read again. */
  readonly turns: Pick<StreamTurns, "startsAtATime">;
  readonly time?: TimeSource | undefined;
}

/** A network whose connections wait or have ended as floods. */
interface Network {
  /** Number of floods since the network was last calm for `calmMs`. */
  floods: number;
  lastFloodMs: number;
  /** Time at which the network began to flood (`#isFlooding`); undefined if it does not. */
  floodingSinceMs: number | undefined;
  /** True if the network floods, and one of its connections may start as soon as the network is read. */
  isDue: boolean;
  /** Connections that wait, newest last. */
  readonly waiting: Waiting[];
  /** True if further connections start in a later turn of the event loop. */
  startsLater: boolean;
  /** Cancels the timer of the next check. */
  cancel: () => void;
}

interface Waiting {
  readonly socket: Socket;
  readonly sinceMs: number;
  readonly start: () => void;
  /** Starts the connection when it is its turn; undefined if it waits in `admitHttp2`. */
  readonly admitAgain: (() => void) | undefined;
}

/**
 * Starts the connections of a listener, a few in each turn of the event loop. New connections wait in two cases:
 *
 * - A connection that breaks HTTP/2 or floods takes tens of milliseconds before it is ended, and its peer may open the
 *   next connection at once. So once more than `maxFloodsPerAddress` connections of an address have ended as floods, only
 *   one of its new connections starts per second. The newest connection starts first, because its client is the most
 *   likely to be still waiting.
 * - While a network is not read because too many of its streams wait (`StreamTurns`), its new HTTP/2 connections wait, so
 *   that they cannot add more. Afterwards, they start a few at a time, the oldest first. Over TLS, all connections wait,
 *   because the protocol is known only after the handshake.
 *
 * Of a connection that waits, only the first bytes are read.
 */
export class ConnectionGate {
  readonly #options: GateOptions;
  readonly #time: TimeSource;
  readonly #share = new ThreadShare(undefined, connectionsPerTurn);
  readonly #networks = new Map<string, Network>();
  /** Connections that started although their networks flooded. */
  readonly #startedInFloods = new WeakSet<Socket>();
  #isClosed = false;

  constructor(options: GateOptions) {
    this.#options = options;
    this.#time = options.time ?? systemTime;
  }

  /** Calls `start` when it is the connection's turn. Until then, the caller must not read the socket. */
  admit(socket: Socket, start: () => void): void {
    const network = networkOf(peerOfSocket(socket).address);
    const admitAgain = (): void => this.admit(socket, start);
    if (this.#isFlooding(network)) {
      this.#options.refusals.count("maxFloodsPerAddress");
      this.#wait(network, socket, start, admitAgain);
    } else if (this.#share.isOver) {
      this.#share.wait(networkTurnKey(network), admitAgain);
    } else {
      this.#share.count();
      this.#start(socket, start);
    }
  }

  /**
   * Calls `start` when a connection that `admit` has started may open streams. Call it once the connection is known to speak
   * HTTP/2, or before a TLS handshake. Until `start` is called, the caller must not read the socket.
   */
  admitHttp2(socket: Socket, start: () => void): void {
    const network = networkOf(peerOfSocket(socket).address);
    const mustWait = this.#isFlooding(network)
      ? !this.#startedInFloods.has(socket)
      : (this.#networks.get(network)?.waiting.length ?? 0) > 0;
    if (mustWait || this.#options.turns.startsAtATime(network) === 0) {
      this.#wait(network, socket, start);
    } else {
      this.#start(socket, start);
    }
  }

  /** Starts some of the connections that wait, if their network is read; called when it is read again. */
  startWaiting(name: string): void {
    const network = this.#networks.get(name);
    if (network === undefined || network.startsLater) {
      return;
    }
    const count = this.#options.turns.startsAtATime(name);
    if (this.#isFlooding(name)) {
      if (count > 0) {
        this.#startDue(network);
      }
      return;
    }
    for (const { socket, start } of network.waiting.splice(0, count)) {
      this.#start(socket, start);
    }
    if (count > 0 && network.waiting.length > 0) {
      network.startsLater = true;
      later(() => {
        network.startsLater = false;
        this.startWaiting(name);
      });
    }
  }

  /** Returns true if only one new connection of the network starts per second, because too many have flooded. */
  #isFlooding(name: string): boolean {
    return this.floodingSinceMs(name) !== undefined;
  }

  /** Returns the time at which a network began to flood; undefined if it does not flood. */
  floodingSinceMs(name: string): number | undefined {
    return this.#networks.get(name)?.floodingSinceMs;
  }

  /** Counts a connection of the address as a flood. */
  countFlood(address: string): void {
    if (this.#options.maxFloodsPerAddress === 0 || this.#isClosed) {
      return;
    }
    const network = this.#network(networkOf(address));
    network.floods += 1;
    network.lastFloodMs = this.#time.now();
    if (network.floods > this.#options.maxFloodsPerAddress) {
      network.floodingSinceMs ??= network.lastFloodMs;
    }
  }

  /** Closes those of the given connections that wait. */
  drop(sockets: ReadonlySet<Socket>): void {
    for (const { waiting } of this.#networks.values()) {
      for (const { socket } of waiting.filter((connection) => sockets.has(connection.socket))) {
        socket.destroy(); // Its "close" removes it from `waiting`.
      }
    }
  }

  /** Closes the connections that wait, and all connections that arrive later. */
  close(): void {
    this.#isClosed = true;
    for (const { waiting, cancel } of this.#networks.values()) {
      cancel();
      for (const { socket } of waiting.splice(0)) {
        socket.destroy();
      }
    }
    this.#networks.clear();
  }

  #network(name: string): Network {
    let network = this.#networks.get(name);
    if (network === undefined) {
      network = {
        floods: 0,
        lastFloodMs: Number.NEGATIVE_INFINITY,
        floodingSinceMs: undefined,
        isDue: false,
        waiting: [],
        startsLater: false,
        cancel: () => {},
      };
      this.#networks.set(name, network);
      this.#checkLater(name, network);
    }
    return network;
  }

  #start(socket: Socket, start: () => void): void {
    if (this.#isClosed) {
      socket.destroy();
    } else if (!socket.destroyed) {
      start();
    }
  }

  #startDue(network: Network): void {
    const newest = network.isDue ? network.waiting.pop() : undefined;
    if (newest !== undefined) {
      network.isDue = false;
      this.#startedInFloods.add(newest.socket);
      this.#start(newest.socket, newest.start);
    }
  }

  #wait(name: string, socket: Socket, start: () => void, admitAgain?: () => void): void {
    if (this.#isClosed || socket.destroyed) {
      socket.destroy();
      return;
    }
    const { waiting } = this.#network(name);
    const stopPeeking = this.#peek(socket);
    const connection: Waiting = {
      socket,
      sinceMs: this.#time.now(),
      start: () => {
        stopPeeking();
        start();
      },
      admitAgain:
        admitAgain &&
        (() => {
          stopPeeking();
          admitAgain();
        }),
    };
    waiting.push(connection);
    socket.once("close", () => {
      const at = waiting.indexOf(connection);
      if (at >= 0) {
        waiting.splice(at, 1);
      }
    });
    if (waiting.length > this.#options.maxConnectionsPerAddress) {
      this.#options.refusals.count("maxConnectionsPerAddress");
      const last = this.#isFlooding(name) ? waiting.shift() : waiting.pop();
      last?.socket.destroy();
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
        peeked = peeked.length === 0 ? chunk : Buffer.concat([peeked, chunk]);
      }
      if (peeked.length >= peekBytes) {
        socket.off("readable", onReadable);
      }
    };
    socket.on("readable", onReadable);
    // If the caller has just removed a listener for "readable", node:stream does not report what it already has: the client
    // may have closed the connection.
    onReadable();
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

  #checkLater(name: string, network: Network): void {
    network.cancel = this.#time.after(paceMs, () => this.#check(name, network));
  }

  /**
   * Starts the newest connection that waits if the network floods, or all waiting connections once the network is calm.
   * Closes connections that have waited for too long.
   */
  #check(name: string, network: Network): void {
    const { waiting } = network;
    const nowMs = this.#time.now();
    if (nowMs - network.lastFloodMs >= calmMs) {
      network.floods = 0;
      network.floodingSinceMs = undefined;
      const again = waiting.filter(({ admitAgain }) => admitAgain !== undefined);
      const inHttp2 = waiting.filter(({ admitAgain }) => admitAgain === undefined);
      waiting.splice(0, waiting.length, ...inHttp2);
      if (inHttp2.length === 0) {
        this.#networks.delete(name);
      }
      for (const { admitAgain } of again) {
        admitAgain?.();
      }
    }
    if (this.#networks.get(name) !== network) {
      return;
    }
    this.#checkLater(name, network);
    network.isDue = network.floodingSinceMs !== undefined;
    this.startWaiting(name);
    for (const { socket } of waiting.filter(({ sinceMs }) => nowMs - sinceMs >= patienceMs)) {
      socket.destroy();
    }
  }
}
