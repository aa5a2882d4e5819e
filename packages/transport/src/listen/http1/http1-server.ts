// SPDX-License-Identifier: Apache-2.0
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { turnKeyOf } from "../../internal/turns/network-turns.ts";
import type { ThreadShare } from "../../internal/turns/thread-share.ts";
import {
  type BufferedBytes,
  type ByteAccount,
  connectionBytes,
} from "../../limits/buffered-bytes.ts";
import { CountedRequest } from "../requests/call-bytes.ts";
import { type HttpPeer, peerOfSocket } from "../requests/process-call.ts";
import type { RefusedRequests } from "../requests/refused-requests.ts";
import { RequestBytes } from "../requests/request-bytes.ts";
import { Http1Input, maxPipelined } from "./http1-input.ts";

/** Time for a connection to send the headers of a request. */
const requestHeadMs = 10_000;

/** Time for the peer of an ended connection to read the last response. */
const farewellMs = 1_000;

const tooManyPipelined = `too many requests at a time: expected at most ${maxPipelined} of one connection to wait for their responses, received one more; wait for the responses`;

const closing = { connection: "close" };

/** Options of `Http1Server`. */
export interface Http1ServerOptions {
  /** Idle time after which a connection without a request is closed; 0 disables the limit. */
  readonly idleConnectionMs: number;
  readonly buffered: BufferedBytes;
  /** Gives connections their turns to be parsed. */
  readonly share: ThreadShare;
  /** Limits the rate of refused requests. A connection whose request is refused above the limit is ended. */
  readonly refusedRequests: RefusedRequests;
  /** Returns why a connection is refused; undefined if the connection is admitted. */
  readonly refusalOf: (socket: Socket) => string | undefined;
  readonly onRequest: (exchange: Http1Request) => void;
  /** Handles a request to upgrade to a WebSocket. */
  readonly onUpgrade: (request: IncomingMessage, network: Duplex, head: Buffer) => void;
  /** Called with the address of a peer that sends too many requests. */
  readonly onFlood: (address: string) => void;
  readonly onError: (error: Error) => void;
}

/** A request over HTTP/1.1, and its response. */
export interface Http1Request {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly peer: HttpPeer;
  /** Undelivered bytes of the request. */
  readonly bytes: RequestBytes;
  /** Answers with an HTTP status and a text. A connection whose requests are refused again and again is ended. */
  refuse(status: number, text: string, headers?: Readonly<Record<string, string>>): void;
  /** Counts a request as refused that `refuse` does not answer. */
  countRefused(): void;
  /** Closes the connection if it is silent for `ms` before the request has ended; 0 for no limit. */
  endIfSilentFor(ms: number): void;
}

interface Connection {
  readonly socket: Socket;
  readonly peer: HttpPeer;
  readonly input: Http1Input;
  readonly account: ByteAccount;
  /** Requests that wait for their responses, by response. */
  readonly open: Map<ServerResponse, RequestBytes>;
  /** The newest request with which `endIfSilentFor` was called. */
  awaited: IncomingMessage | undefined;
  /** Ends the wait for the headers of a request. */
  timer: NodeJS.Timeout | undefined;
  /** True once the server reads no further requests. */
  isEnded: boolean;
}

/** The HTTP/1.1 connections of a listener, until they close or become WebSockets. Their requests take turns. */
export class Http1Server {
  readonly #options: Http1ServerOptions;
  readonly #server = createServer({ shouldUpgradeCallback: isWebSocket });
  readonly #connections = new Map<Duplex, Connection>();
  #isDraining = false;

  constructor(options: Http1ServerOptions) {
    this.#options = options;
    const server = this.#server;
    server.on("request", (request, response) => {
      const connection = this.#connections.get(request.socket);
      if (connection !== undefined && !connection.isEnded) {
        this.#accept(connection, request, response);
      }
    });
    server.on("upgrade", (request, network, head) => {
      const connection = this.#connections.get(request.socket);
      const rest = connection?.input.release() ?? Buffer.alloc(0);
      if (connection !== undefined) {
        this.#forget(connection); // The WebSocket has a separate account.
      }
      if (this.#isDraining) {
        network.destroy();
      } else {
        options.onUpgrade(request, network, rest.length > 0 ? Buffer.concat([head, rest]) : head);
      }
    });
    server.setTimeout(options.idleConnectionMs, (socket) => {
      const connection = this.#connections.get(socket);
      // A call may be silent for a long time once its request has ended.
      if (connection?.open.size === 0 || connection?.awaited?.complete === false) {
        socket.destroy();
      }
    });
    server.on("clientError", (error, socket) => {
      options.onError(error);
      const connection = this.#connections.get(socket);
      if (connection !== undefined && isMalformed(error)) {
        this.#countRefused(connection);
      }
      // A client that speaks TLS thus learns that the port is in plain text.
      socket.end("HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n", () => socket.destroy());
    });
  }

  /** Serves a connection. */
  add(socket: Socket): void {
    const peer = peerOfSocket(socket);
    const open = new Map<ServerResponse, RequestBytes>();
    const input = new Http1Input(
      socket,
      turnKeyOf(peer.address),
      this.#options.share,
      () => open.size,
    );
    const account = this.#options.buffered.open(connectionBytes(peer.address), {
      isWaitingForPeer: false,
      get unreportedBytes() {
        let bytes = input.waitingBytes + socket.readableLength + socket.writableLength;
        for (const [response, request] of open) {
          bytes += request.bytes + (response.socket === null ? response.writableLength : 0);
        }
        return bytes;
      },
      fail: () => socket.destroy(),
    });
    const connection: Connection = {
      socket,
      peer,
      input,
      account,
      open,
      awaited: undefined,
      timer: undefined,
      isEnded: false,
    };
    this.#connections.set(socket, connection);
    socket.once("close", () => {
      this.#forget(connection);
      setImmediate(() => {
        // Node 22 does not close the responses that wait for an earlier response of the connection.
        for (const response of [...open.keys()]) {
          response.emit("close");
        }
      });
    });
    this.#awaitRequest(connection);
    socket.setNoDelay(); // node:http does this only for connections that it accepts itself.
    this.#server.emit("connection", socket);
    socket.on("data", drop);
  }

  /** Closes the connections without a request. Each of the others closes after its current response. */
  drain(): void {
    this.#isDraining = true;
    for (const { socket, open } of [...this.#connections.values()]) {
      if (open.size === 0) {
        socket.destroy();
      }
    }
  }

  #forget({ socket, timer, account }: Connection): void {
    clearTimeout(timer);
    account.close();
    socket.off("data", drop);
    this.#connections.delete(socket);
  }

  #awaitRequest(connection: Connection): void {
    const { socket } = connection;
    if (this.#connections.get(socket) !== connection) {
      return; // It has become a WebSocket.
    }
    if (this.#isDraining || socket.destroyed) {
      socket.destroy();
      return;
    }
    connection.timer = setTimeout(() => socket.destroy(), requestHeadMs).unref();
  }

  #accept(connection: Connection, request: IncomingMessage, response: ServerResponse): void {
    const { socket, open, account } = connection;
    this.#options.share.count();
    clearTimeout(connection.timer);
    const path = request.url?.split("?", 1)[0];
    const counted = new Http1RequestCount(path, account, () => this.#endFlood(connection));
    const bytes = new RequestBytes(request, counted);
    open.set(response, bytes);
    response.once("close", () => {
      open.delete(response);
      if (connection.awaited === request) {
        connection.awaited = undefined;
      }
      if (open.size === 0) {
        this.#awaitRequest(connection);
      }
    });
    const refusal = this.#options.refusalOf(socket);
    if (refusal !== undefined) {
      respond(response, 503, refusal, { "retry-after": "1", ...closing });
      return;
    }
    if (open.size > maxPipelined) {
      respond(response, 429, tooManyPipelined, closing);
      this.#endFlood(connection);
      return;
    }
    this.#options.onRequest({
      request,
      response,
      peer: connection.peer,
      bytes,
      refuse: (status, text, headers = {}) => {
        const isWithinLimit = this.#countRefused(connection);
        respond(response, status, text, isWithinLimit ? headers : { ...headers, ...closing });
      },
      countRefused: () => this.#countRefused(connection),
      endIfSilentFor(ms) {
        connection.awaited = request;
        socket.setTimeout(ms);
      },
    });
  }

  /** Counts a request as refused. Returns false if the connection is ended for it. */
  #countRefused(connection: Connection): boolean {
    const isWithinLimit = this.#options.refusedRequests.count(connection.peer.address);
    if (!isWithinLimit) {
      this.#endFlood(connection);
    }
    return isWithinLimit;
  }

  /** Ends a connection: its last response is sent, and no further requests are read. */
  #endFlood(connection: Connection): void {
    if (connection.isEnded) {
      return;
    }
    connection.isEnded = true;
    const { socket, peer, input } = connection;
    input.stop();
    this.#options.onFlood(peer.address);
    this.#options.onError(
      new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `connection of ${peer.address} ended: expected HTTP/1.1 requests that can be answered, received too many that are malformed, refused or sent before earlier responses; wait for each response`,
        { origin: "connection" },
      ),
    );
    setTimeout(() => socket.destroy(), farewellMs).unref();
  }
}

/** Counts a request in the account of its connection. */
class Http1RequestCount extends CountedRequest {
  protected readonly account: ByteAccount;
  protected readonly onTooManyPieces: () => void;

  constructor(path: string | undefined, account: ByteAccount, onTooManyPieces: () => void) {
    super(path);
    this.account = account;
    this.onTooManyPieces = onTooManyPieces;
  }
}

function respond(
  response: ServerResponse,
  status: number,
  text: string,
  headers: Readonly<Record<string, string>>,
): void {
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8", ...headers });
  response.end(`${text}\n`);
}

/**
 * Returns true for an error of node:http's parser, and false for an error of the network or a connection that ends in the
 * middle of a request, as canceled uploads do.
 */
function isMalformed(error: NodeJS.ErrnoException): boolean {
  return error.code?.startsWith("HPE_") === true && error.code !== "HPE_INVALID_EOF_STATE";
}

/**
 * Listens for the data of a socket, so that node:http reads it through `Readable.push`, which `Http1Input` replaces.
 * Otherwise, node:http would read the socket's handle itself.
 */
function drop(): void {}

/**
 * Returns true for an upgrade to a WebSocket. Requests with other upgrades, such as h2c, are answered as plain
 * requests.
 */
function isWebSocket(request: IncomingMessage): boolean {
  return request.headers.upgrade?.toLowerCase() === "websocket";
}
