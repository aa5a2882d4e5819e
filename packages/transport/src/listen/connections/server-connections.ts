// SPDX-License-Identifier: Apache-2.0
import { EventEmitter } from "node:events";
import {
  constants,
  type Http2Session,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { NetworkCounts } from "../../internal/counts/network-counts.ts";
import type { RefusalCounts } from "../../internal/counts/refusal-counts.ts";
import { systemTime } from "../../internal/time/time-source.ts";
import { type TurnKey, turnKeyOf } from "../../internal/turns/network-turns.ts";
import { type ConnectionBytes, connectionBytes, maxPieces } from "../../limits/buffered-bytes.ts";
import { windowBytes } from "../../limits/limits.ts";
import { peerOfSocket } from "../requests/process-call.ts";
import type { ConnectionWindows } from "./connection-windows.ts";
import type { NetworkFloods } from "./network-floods.ts";
import { OtherBytes, refusedStreamBytes } from "./other-bytes.ts";
import { readingOf } from "./socket-reading.ts";
import type { ConnectionTurns, StreamTurns } from "./stream-turns.ts";

/** Time that the peer of a refused or ended connection has to read the reason and to close its side. */
const farewellMs = 1_000;

/** A connection is closed once this many checks in a row have found it idle. */
const idleChecks = 4;

/**
 * Maximum number of "other bytes" that a connection may send at once: bytes in addition to messages and the headers of
 * its streams. An honest peer may still send DATA to streams that have just ended, but at most one window of DATA.
 */
const mostOtherBytes = windowBytes;

/**
 * A connection is suspect once more than this many of its streams have failed in node:http2, because their headers were
 * invalid or too large.
 */
const failedStreams = 16;

/** Value of `mostOtherBytes` for a suspect connection. A megabyte of invalid headers takes 20 ms to decode. */
const mostSuspectBytes = 256 * 1024;

/**
 * A stream counts as abandoned if it closes this soon and this side has not finished its response: the peer has reset it
 * or closed the connection. Clients that open streams and abandon them without pause take as much time as clients that
 * use them, and more memory.
 */
const abandonedWithinMs = 1_000;

/** For its network, an abandoned stream counts as this many other bytes: about the memory that it takes until it is collected. */
const abandonedStreamBytes = 16 * 1024;

/** A connection that breaks HTTP/2 counts as a flood if more of its streams than this were reset before they started. */
const mostCanceled = 256;

/** Maximum number of GOAWAY frames of a peer. Each causes an event; a client that shuts down sends two. */
const mostGoaways = 16;

/** Time between two checks of a connection whose peer has sent a GOAWAY. */
const leavingCheckMs = 2_000;

/** Maximum number of unacknowledged SETTINGS frames on a connection whose peer has sent a GOAWAY. */
const mostUnacknowledged = 8;

/** Time between two checks for floods. */
const calmCheckMs = 100;

/** Time between two checks for floods during `alertMs` after a sign of a flood. */
const alertCheckMs = 10;
const alertMs = 10_000;

/** Checks for floods take at most 1/100 of the thread's time, or 1/20 during `alertMs` after a sign of a flood. */
const calmCheckShare = 100;
const alertCheckShare = 20;

/** One HTTP/2 connection of a listener. */
export interface ServerConnection {
  readonly session: ServerHttp2Session;
  /** Address and port of the peer. */
  readonly address: string;
  readonly turnKey: TurnKey;
  /** The peer's verified certificate, in DER. */
  readonly certificate: Uint8Array | undefined;
  /** True if the connection is above a limit: its streams are refused. */
  readonly refused: boolean;
  /** Undelivered bytes of the connection's streams. */
  readonly buffered: ConnectionBytes;
  /** Returns the error once the connection is lost. */
  failure(): Error | undefined;
  /**
   * Counts a stream as open until it closes, and counts the DATA that it receives. Then removes the stream's listeners,
   * because node:http2 may keep a closed stream reachable until the next major collection (see `LiveSet`).
   */
  streamOpened(http2: ServerHttp2Stream): void;
  /** Calls `begin` when it is the stream's turn. Drops a stream that is reset before. */
  startStream: ConnectionTurns["start"];
  /** Counts an open stream as refused. A connection with about a thousand refused streams is ended. */
  streamRefused(http2: ServerHttp2Stream): void;
}

/** A connection that is ended if the connections of its network flood together. */
export interface FloodingConnection {
  endFlood(): void;
}

/** Limits on a listener's connections. */
export interface ConnectionLimits {
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
  readonly maxStreamsPerConnection: number;
  /** Sums the connections of a network; undefined if they are not summed up. */
  readonly floods: NetworkFloods<FloodingConnection> | undefined;
  /** Number of connections from each network, over all protocols and ports. */
  readonly byNetwork: NetworkCounts;
  readonly windows: ConnectionWindows;
  readonly turns: StreamTurns;
  /** Counts refused connections. */
  readonly refusals: RefusalCounts;
  readonly pingIntervalMs: number;
  readonly idleConnectionMs: number;
  /** Called with the address of a peer that broke HTTP/2 or sent too many frames. */
  readonly onFlood: (address: string) => void;
  /** Returns the time of `systemTime` at which a network began to flood; undefined if it does not flood. */
  readonly floodingSinceMs: (network: string) => number | undefined;
  /** Called with the error of a connection that was lost or refused. */
  readonly onError: (error: Error) => void;
}

interface Entry extends ServerConnection, FloodingConnection {
  readonly socket: Socket;
  /** Time since which the connection has been open. */
  readonly addedAtMs: number;
  /** Number of open streams. Once the session has ended, the number no longer changes. */
  streams: number;
  readonly otherBytes: OtherBytes;
  /** Number of streams that have had their turn. */
  started: number;
  idle: number;
  pinged: boolean;
  /** Time of the last ping. */
  pingedAtMs: number;
  /** Value of `stoppedMs` at the last ping. */
  stoppedMsAtPing: number;
  /** Returns for how long the connection has not been read so far (`ConnectionTurns.stoppedMs`). */
  readonly stoppedMs: () => number;
  lost: Error | undefined;
  /** True once the connection has counted as a flood. */
  isFlood: boolean;
  /** True once this side has ended the connection. Its socket is reset if the peer leaves its side open. */
  ending: boolean;
  /** Closes the socket with a reset. */
  readonly cut: () => void;
}

/** The HTTP/2 connections of a listener. Counts and pings them, and closes connections that are idle or flood. */
export class ServerConnections {
  readonly #limits: ConnectionLimits;
  readonly #entries = new Map<Http2Session, Entry>();
  readonly #timers: NodeJS.Timeout[] = [];
  #floodCheck: NodeJS.Timeout | undefined;
  /** Time at which `#floodCheck` is due. */
  #floodCheckMs = 0;
  #floodsCheckedMs = 0;
  /** The next check for floods must not be before this time (`calmCheckShare`, `alertCheckShare`). */
  #earliestCheckMs = 0;
  #alertUntilMs = 0;

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
    const { pingIntervalMs, idleConnectionMs } = limits;
    const probeMs = pingIntervalMs > 0 ? pingIntervalMs : idleConnectionMs;
    if (probeMs > 0) {
      this.#timers.push(setInterval(() => this.#probe(probeMs), probeMs).unref());
    }
    if (idleConnectionMs > 0) {
      const everyMs = Math.max(1, idleConnectionMs / idleChecks);
      this.#timers.push(setInterval(() => this.#closeIdle(), everyMs).unref());
    }
  }

  get(session: Http2Session): ServerConnection | undefined {
    return this.#entries.get(session);
  }

  /** Adds an accepted connection. */
  add(session: ServerHttp2Session): void {
    const { address, certificate } = peerOfSocket(session.socket);
    const buffered = connectionBytes(address);
    const turnKey = turnKeyOf(address);
    const turns = this.#limits.turns.add(turnKey, readingOf(session.socket));
    const limit = this.#limitMet(address);
    const refused = limit !== undefined;
    const otherBytes = new OtherBytes();
    const { push } = Readable.prototype;
    const countAndPush = function (this: ServerHttp2Stream, chunk: Buffer | null): boolean {
      if (chunk === null && this.closed && !this.destroyed && !this.writableFinished) {
        destroyLater(this); // The peer has reset a stream whose response has ended, so it is not "aborted".
      }
      const length = chunk?.length ?? 0;
      otherBytes.receiveData(length);
      return push.call(this, chunk);
    };
    let gone: Error | undefined;
    const entry: Entry = {
      session,
      socket: session.socket,
      addedAtMs: systemTime.now(),
      address,
      certificate,
      refused,
      turnKey,
      buffered,
      streams: 0,
      otherBytes,
      started: 0,
      idle: 0,
      pinged: false,
      pingedAtMs: 0,
      stoppedMsAtPing: 0,
      stoppedMs: turns.stoppedMs,
      lost: undefined,
      isFlood: false,
      ending: false,
      // node:http2 binds the methods of a session's socket to the real socket, so this also works once the session has
      // released the socket.
      cut: session.socket.resetAndDestroy,
      failure: () => {
        // All streams share one error, because each new error costs a stack trace.
        if (entry.lost === undefined && gone === undefined && isSocketGone(session)) {
          gone = lostConnection(address);
        }
        return entry.lost ?? gone;
      },
      streamOpened: (http2) => {
        entry.streams += 1;
        otherBytes.openStream(http2.id ?? 0);
        entry.idle = 0;
        http2.push = countAndPush; // node:http2 calls `push` for each DATA frame.
        http2.on("aborted", onAborted);
        const openedAtMs = performance.now();
        http2.on("close", () => {
          if (!session.destroyed) {
            entry.streams -= 1;
          }
          // node:http2 sets `aborted` if a stream closes before its response has ended.
          const isAbandoned = http2.aborted && !entry.ending;
          if (isAbandoned && performance.now() - openedAtMs < abandonedWithinMs) {
            this.#countForNetwork(entry, abandonedStreamBytes);
          }
          removeListeners(http2);
        });
      },
      startStream: (http2, begin) =>
        turns.start(http2, () => {
          entry.started += 1;
          begin();
        }),
      streamRefused: ({ id = 0, closed, destroyed }) => {
        otherBytes.refuseStream(id, !closed && !destroyed);
        this.#countForNetwork(entry, refusedStreamBytes);
      },
      endFlood: () => this.#endFlood(entry),
    };
    this.#entries.set(session, entry);
    const uncount = this.#limits.byNetwork.add(address);
    session.once("close", () => {
      this.#entries.delete(session);
      uncount();
      turns.close();
    });
    session.on("error", (error: Error) => {
      entry.lost ??= lostConnection(address, error);
      this.#limits.onError(entry.lost);
      if (isViolation(error, entry, this.#limits.maxStreamsPerConnection)) {
        this.#countFlood(entry);
      }
    });
    let goaways = 0;
    session.on("goaway", () => {
      goaways += 1;
      if (goaways === 1) {
        this.#endOnceForgotten(entry);
      }
      if (goaways > mostGoaways) {
        this.#endFlood(entry);
      }
    });
    if (limit !== undefined) {
      this.#limits.refusals.count(limit);
      this.#limits.onError(
        new DmEnvRpcError(
          "RESOURCE_EXHAUSTED",
          `connection of ${address} refused: expected at most ${this.#limits[limit]} (${limit}), received one more`,
          { origin: "connection" },
        ),
      );
      const why = `${limit}: at most ${this.#limits[limit]}; try again later`;
      session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM, 0, Buffer.from(why));
      setTimeout(() => this.#end(entry), farewellMs).unref();
      return;
    }
    session.once("close", this.#limits.windows.add(entry.buffered.network, session));
    this.#checkFloodsAt(performance.now() + calmCheckMs);
  }

  /** Returns the limit that refuses one more connection; undefined if no limit does. */
  #limitMet(address: string): "maxConnections" | "maxConnectionsPerAddress" | undefined {
    const { maxConnections, maxConnectionsPerAddress, byNetwork } = this.#limits;
    if (byNetwork.total >= maxConnections) {
      return "maxConnections";
    }
    return byNetwork.of(address) >= maxConnectionsPerAddress
      ? "maxConnectionsPerAddress"
      : undefined;
  }

  /** Sends a GOAWAY to every peer. Each connection closes once its last stream has ended. */
  drain(): void {
    for (const { session } of this.#entries.values()) {
      session.close();
    }
  }

  /** Ends every connection now. */
  destroy(): void {
    for (const entry of this.#entries.values()) {
      entry.lost ??= new DmEnvRpcError("UNAVAILABLE", "the server was closed", {
        origin: "connection",
      });
      entry.session.destroy();
    }
  }

  /** Stops the pings, and the checks for idle connections and floods. */
  stop(): void {
    for (const timer of this.#timers) {
      clearInterval(timer);
    }
    clearTimeout(this.#floodCheck);
    this.#floodCheck = undefined;
  }

  /**
   * Counts other bytes for the connection's network. If it is above its limit, checks for floods soon: until the next
   * regular check, a client can open thousands of streams that are refused or that it abandons.
   */
  #countForNetwork(entry: Entry, bytes: number): void {
    if (this.#limits.floods?.count(entry.buffered.network, entry, bytes) === true) {
      this.#checkFloodsSoon();
    }
  }

  #checkFloodsAt(ms: number): void {
    if (this.#floodCheck === undefined) {
      this.#floodCheckMs = ms;
      const afterMs = Math.max(0, ms - performance.now());
      this.#floodCheck = setTimeout(() => this.#checkFloods(), afterMs).unref();
    }
  }

  /** Brings the next check for floods forward. Does nothing once the checks have stopped. */
  #checkFloodsSoon(): void {
    const dueMs = Math.max(performance.now(), this.#earliestCheckMs);
    if (this.#floodCheck !== undefined && dueMs < this.#floodCheckMs) {
      clearTimeout(this.#floodCheck);
      this.#floodCheck = undefined;
      this.#checkFloodsAt(dueMs);
    }
  }

  #checkFloods(): void {
    this.#floodCheck = undefined;
    const sinceMs = performance.now();
    const { floods, unused } = this.#findFloods(sinceMs);
    const foundMs = performance.now(); // Without the time to end them, so that the next floods end soon, too.
    const isAlert = foundMs < this.#alertUntilMs;
    const checkShare = isAlert ? alertCheckShare : calmCheckShare;
    this.#earliestCheckMs = foundMs + checkShare * (foundMs - sinceMs);
    for (const connection of floods) {
      connection.endFlood();
    }
    for (const entry of unused) {
      this.#limits.refusals.count("maxFloodsPerAddress");
      this.#end(entry);
    }
    if (this.#entries.size > 0) {
      const afterMs = isAlert ? alertCheckMs : calmCheckMs;
      this.#checkFloodsAt(Math.max(performance.now() + afterMs, this.#earliestCheckMs));
    }
  }

  /**
   * Returns the connections that have sent too many bytes in addition to their messages, alone or with their network. Also
   * returns the unused connections of networks that flood, if they are older than the floods: they have made no call, or only
   * calls that were refused. Otherwise, a peer could open thousands of connections first, and then flood on each.
   */
  #findFloods(nowMs: number): {
    readonly floods: ReadonlySet<FloodingConnection>;
    readonly unused: readonly Entry[];
  } {
    const { floods, floodingSinceMs } = this.#limits;
    const found = new Set<FloodingConnection>();
    const unused: Entry[] = [];
    const elapsedMs = Math.min(nowMs - this.#floodsCheckedMs, 1_000);
    this.#floodsCheckedMs = nowMs;
    for (const entry of this.#entries.values()) {
      if (entry.session.destroyed) {
        continue; // The session has released its socket.
      }
      const { otherBytes, socket, streams } = entry;
      const fresh = otherBytes.check(socket.bytesRead, streams, elapsedMs);
      floods?.count(entry.buffered.network, entry, fresh);
      const { spent, opened, refused } = otherBytes;
      if (spent > mostOtherBytes / 16) {
        this.#alertUntilMs = nowMs + alertMs;
      }
      if (spent > mostOtherBytes || (spent > mostSuspectBytes && isSuspect(entry))) {
        found.add(entry);
      } else if (opened === refused) {
        const sinceMs = floodingSinceMs(entry.turnKey.network);
        if (sinceMs !== undefined && entry.addedAtMs < sinceMs) {
          unused.push(entry);
        }
      }
    }
    for (const connection of floods?.check(nowMs) ?? []) {
      found.add(connection);
    }
    if (floods?.isAlert === true) {
      this.#alertUntilMs = nowMs + alertMs;
    }
    return { floods: found, unused };
  }

  /** Ends a connection as a flood. One that its peer has closed still counts as a flood of its address. */
  #endFlood(entry: Entry): void {
    this.#countFlood(entry);
    if (entry.session.destroyed) {
      return;
    }
    entry.lost ??= new DmEnvRpcError(
      "RESOURCE_EXHAUSTED",
      `connection of ${entry.address} ended as a flood: expected messages, received too many other frames, calls that were refused, or calls that were abandoned within a second`,
      { origin: "connection" },
    );
    this.#end(entry, entry.lost, constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }

  #countFlood(entry: Entry): void {
    if (!entry.isFlood) {
      entry.isFlood = true;
      this.#limits.onFlood(entry.address);
    }
  }

  /**
   * Detects connections whose peer is lost. Without pings, only connections that are closing are probed. node:http2
   * forgets some of these connections and no longer reads their sockets (decision 14).
   */
  #probe(withinMs: number): void {
    for (const entry of this.#entries.values()) {
      const { session } = entry;
      if (session.destroyed) {
        this.#end(entry);
      } else if (entry.pinged) {
        if (hadTime(entry, withinMs)) {
          this.#giveUpUnlessAnswered(entry, withinMs);
        }
      } else if (session.closed) {
        startPing(entry);
        // While a connection closes, node:http2 sends no pings. Peers acknowledge settings, too.
        session.settings({}, (error) => this.#answered(entry, error));
      } else if (this.#limits.pingIntervalMs > 0) {
        startPing(entry);
        session.ping((error) => this.#answered(entry, error));
      }
    }
  }

  #answered(entry: Entry, error: Error | null): void {
    if (error === null) {
      entry.pinged = false;
    }
  }

  /**
   * Ends a connection whose ping is unanswered. Reads the socket first, because the answer may have arrived while this
   * process was busy.
   */
  #giveUpUnlessAnswered(entry: Entry, withinMs: number): void {
    setImmediate(() =>
      setImmediate(() => {
        if (entry.pinged && !entry.session.destroyed) {
          this.#giveUp(entry, withinMs);
        }
      }),
    );
  }

  #giveUp(entry: Entry, withinMs: number): void {
    entry.lost ??= new DmEnvRpcError(
      "UNAVAILABLE",
      `the client at ${entry.address} did not answer a ping within ${withinMs} ms`,
      { origin: "connection" },
    );
    this.#limits.onError(entry.lost);
    this.#end(entry);
  }

  /**
   * Ends a closing connection within seconds if node:http2 has forgotten it (decision 14). Each check sends SETTINGS.
   * If the socket has neither received nor sent a byte by the next check, node:http2 no longer uses it.
   */
  #endOnceForgotten(entry: Entry): void {
    const { session, socket } = entry;
    let unacknowledged = 0;
    let movedBytes: number | undefined;
    const timer = setInterval(() => {
      if (session.destroyed || !session.closed) {
        return;
      }
      const moved = socket.bytesRead + socket.bytesWritten;
      if (moved === movedBytes) {
        this.#giveUp(entry, leavingCheckMs);
        return;
      }
      movedBytes = undefined;
      if (unacknowledged < mostUnacknowledged) {
        movedBytes = moved;
        unacknowledged += 1;
        session.settings({}, () => {
          unacknowledged -= 1;
        });
      }
    }, leavingCheckMs).unref();
    session.once("close", () => clearInterval(timer));
  }

  /** Ends a connection and its streams. The socket closes even if the peer leaves its side open. */
  #end(entry: Entry, error?: Error, code?: number): void {
    if (!entry.ending) {
      entry.ending = true;
      setTimeout(entry.cut, farewellMs).unref();
    }
    entry.session.destroy(error, code);
  }

  #closeIdle(): void {
    for (const entry of this.#entries.values()) {
      if (entry.streams > 0) {
        continue;
      }
      entry.idle += 1;
      if (entry.idle > idleChecks) {
        this.#end(entry);
      } else if (entry.idle === idleChecks) {
        entry.session.close();
      }
    }
  }
}

/** Called when node:http2 aborts a stream: the peer has reset it, or the connection has ended. */
function onAborted(this: ServerHttp2Stream): void {
  if (this.destroyed) {
    this.end = ignoreEnd;
  } else {
    destroyLater(this);
  }
}

/**
 * Destroys an aborted stream once its other listeners have run. If the peer has reset it with NO_ERROR, node:http2 would
 * keep it until the peer reads the rest of the response, which the peer no longer receives.
 */
function destroyLater(http2: ServerHttp2Stream): void {
  process.nextTick(() => http2.destroy());
}

/**
 * Replaces `end` of a destroyed stream. node:http2 calls `end` on each aborted stream. If the stream has failed,
 * node:stream would create an error only to drop it (decision 12).
 */
function ignoreEnd(this: ServerHttp2Stream): ServerHttp2Stream {
  return this;
}

/**
 * Removes the listeners of a closed stream. node:http2 listens to "removeListener"; without this listener, the others are
 * removed at once. Readable's own method would schedule a further tick.
 */
function removeListeners(http2: ServerHttp2Stream): void {
  const { removeAllListeners } = EventEmitter.prototype;
  removeAllListeners.call(http2, "removeListener");
  removeAllListeners.call(http2);
}

function startPing(entry: Entry): void {
  entry.pinged = true;
  entry.pingedAtMs = performance.now();
  entry.stoppedMsAtPing = entry.stoppedMs();
}

/** Returns false if the answer to the last ping may not have been read yet, because the connection was not read. */
function hadTime({ pingedAtMs, stoppedMsAtPing, stoppedMs }: Entry, withinMs: number): boolean {
  const stopped = stoppedMs() - stoppedMsAtPing;
  return stopped === 0 || performance.now() - pingedAtMs - stopped >= withinMs;
}

/** The error with which nghttp2 ends a connection that breaks a rule (NGHTTP2_ERR_PROTO). */
const protocolError = -505;

/**
 * Returns true if a session ended because its peer floods or does not speak HTTP/2. An agent of grpc-go also causes a
 * protocol error when it closes a connection: its GOAWAY names its own last stream. So a protocol error does not count
 * if the peer has opened streams, with two exceptions. If `maxStreams` are open, it may have opened one too many. If it has
 * canceled many streams at once, nghttp2 no longer accepts its streams, so their frames are errors.
 */
function isViolation(
  error: Error,
  { otherBytes: { opened }, started, streams }: Entry,
  maxStreams: number,
): boolean {
  if (!("code" in error && "errno" in error)) {
    return false;
  }
  const canceled = opened - started - streams;
  return error.code === "ERR_HTTP2_ERROR"
    ? error.errno !== protocolError ||
        opened === 0 ||
        streams >= maxStreams ||
        canceled > mostCanceled
    : error.code === "ERR_HTTP2_TOO_MANY_INVALID_FRAMES";
}

/** Returns true if many streams failed before node:http2 reported them, or if messages arrive in too many pieces. */
function isSuspect({ session, otherBytes: { opened }, buffered }: Entry): boolean {
  const begun = ((session.state.lastProcStreamID ?? 0) + 1) / 2;
  return begun - opened > failedStreams || buffered.pieces > maxPieces;
}

function isSocketGone(session: ServerHttp2Session): boolean {
  try {
    return session.socket.destroyed;
  } catch {
    return true; // The session no longer has a socket.
  }
}

function lostConnection(address: string, cause?: Error): Error {
  const why = cause === undefined ? "" : `: ${cause.message}`;
  return new DmEnvRpcError(
    "UNAVAILABLE",
    `the connection to the client at ${address} was lost${why}`,
    { origin: "connection", cause },
  );
}
