// SPDX-License-Identifier: Apache-2.0
import type { ConnectRouter, ContextValues } from "@connectrpc/connect";
import type { BufferedBytes } from "../limits/buffered-bytes.ts";
import type { ListenLimits } from "../limits/listen-limits.ts";
import type { CallCodecs } from "../stream/call-codecs.ts";
import type { Peer, ServerStream } from "../stream/message-stream.ts";
import type { Socket } from "../websocket/websocket-stream.ts";

/** Certificates of a listener, in PEM. */
export interface ListenTls {
  /** Certificate chain of the server. */
  readonly cert: string | Uint8Array;
  readonly key: string | Uint8Array;
  readonly passphrase?: string | undefined;
  /** Authorities that client certificates are verified against. Default: the system's store. */
  readonly ca?: string | Uint8Array | ReadonlyArray<string | Uint8Array> | undefined;
  /**
   * Client certificates (mTLS): `required`, `optional` or `none`. `optional` also accepts clients
   * without a certificate, and clients whose certificate does not verify: their `peer.certificate` is undefined.
   * Default `none`.
   */
  readonly clientCertificates?: "none" | "optional" | "required" | undefined;
}

/** A call of one of a listener's `routes`. */
export interface RouteCall {
  /** Path of the method, such as `/grpc.health.v1.Health/Check`. */
  readonly path: string;
  /** The object that `peerOfCall` returns for this call. */
  readonly peer: Peer;
  /**
   * Counts the call as refused, as if `onCall` had thrown an error. Call it at most once. The listener ends a
   * connection with thousands of refused calls.
   */
  refused(): void;
}

/** A `ByteStream`'s side of the call that it answers. */
export interface ByteCall {
  readonly values: ContextValues;
  /** Aborts when the call ends: its caller disconnects, or its deadline passes. */
  readonly signal: AbortSignal;
  /**
   * Calls `listener` once the call has closed: its caller has disconnected, or its response has been sent. Takes less
   * memory than `signal`.
   */
  onClose(listener: () => void): void;
  /**
   * Sends a response: its protobuf or JSON, framed by `envelope`. The bytes must not change afterwards.
   *
   * @returns False if the caller reads too slowly: await `drained` before the next response.
   */
  send(framed: Uint8Array): boolean;
  /**
   * Call it after `send` has returned false. Resolves once all responses have been passed to the network, or the caller
   * has disconnected.
   */
  drained(): Promise<void>;
}

/**
 * Answers a call that has one request. It sends responses that are encoded already, so that a response for many callers
 * is encoded once. The call ends when the promise settles. If the promise rejects, the call
 * ends with its error.
 *
 * @param request The request in protobuf, or in JSON for one of `jsonStreams`.
 */
export type ByteStream = (request: Uint8Array, call: ByteCall) => Promise<void>;

/** A file that a listener serves. */
export interface ServedFile {
  /** Response headers by lower-case name, such as `content-type`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** The body compressed by gzip, for clients that accept it. */
  readonly gzip?: Uint8Array | undefined;
}

/** A protocol over WebSockets, other than the protocol of Process streams. */
export interface WebSocketRoute {
  /** Sub-protocol that clients must offer. */
  readonly subprotocol: string;
  /** Maximum size of a message, in bytes. For a larger message, the socket calls `onTooLarge`. */
  readonly maxMessageBytes: number;
  /**
   * Takes over an open socket. If a page opened it, the listener has checked that the page's origin is allowed. Called
   * synchronously; must not throw.
   */
  accept(socket: Socket, peer: Peer): void;
}

/** Options of `listen`. */
export interface ListenOptions extends Partial<ListenLimits> {
  /** Called synchronously with each Process stream, whatever its protocol. Must not throw. */
  readonly onStream: (stream: ServerStream) => void;
  /** Adds further services to the same port, such as health and reflection. */
  readonly routes?: ((router: ConnectRouter) => void) | undefined;
  /**
   * Admits a call of `routes` before its request is read. Returns a function that the listener calls once the call has
   * ended. To refuse the call, throw an error; the metadata of a ConnectError is sent, too. Default: admits every call.
   */
  readonly onCall?: ((call: RouteCall) => () => void) | undefined;
  /**
   * Address to listen on, or `unix:/path` for a Unix domain socket, whose file `listen` creates and
   * `close` removes. Default 127.0.0.1.
   */
  readonly host?: string | undefined;
  /** Port to listen on; 0 picks a free one. Ignored for a Unix domain socket. Default 0. */
  readonly port?: number | undefined;
  /** Serves TLS instead of plain text. */
  readonly tls?: ListenTls | undefined;
  /**
   * Origins whose pages may use this server, such as `https://play.example.org`; `*` allows all.
   * Default: only pages that this server itself serves.
   */
  readonly allowedOrigins?: readonly string[] | undefined;
  /**
   * Byte streams, by the path of their method in `routes`. They answer requests that are binary and uncompressed.
   * Default: none.
   */
  readonly byteStreams?: ReadonlyMap<string, ByteStream> | undefined;
  /** Like `byteStreams`, for requests in JSON. Default: none. */
  readonly jsonStreams?: ReadonlyMap<string, ByteStream> | undefined;
  /** Accepts WebSockets of other protocols, by path. Default: none. */
  readonly webSockets?: ReadonlyMap<string, WebSocketRoute> | undefined;
  /** Files to serve to pages, by path, such as `/page.js`. Default: none. */
  readonly files?: ReadonlyMap<string, ServedFile> | undefined;
  /**
   * Count of undelivered bytes, with limits of its own, for a caller that opens further accounts. The caller must call
   * its `stop`. Default: the listener counts its own bytes, with its own limits.
   */
  readonly buffered?: BufferedBytes | undefined;
  /** Codecs of both directions. Default: tensor-codec's codecs with their default limits. */
  readonly codecs?: CallCodecs | undefined;
  /**
   * Called with errors that no stream or call reports: a peer that does not speak HTTP/2, a failed
   * TLS handshake, a connection above `maxConnections`, a broken response of a route. Default:
   * ignores them.
   */
  readonly onError?: ((error: Error) => void) | undefined;
}

/** Options of `Listener.close`. */
export interface CloseOptions {
  /** Time after which open streams are ended, in ms. Default 1,000. */
  readonly graceMs?: number | undefined;
}

/** Options of `Listener.addPort`. */
export type PortOptions = Pick<ListenOptions, "port" | "onStream">;

/** A port that accepts Process streams. */
export interface Listener extends AsyncDisposable {
  /** Host as passed to `listen`. */
  readonly host: string;
  /** 0 for a Unix domain socket. */
  readonly port: number;
  /** `http://host:port`, `https://host:port` or `unix:/path`. */
  readonly url: string;
  /** Number of open connections, including HTTP/1.1 and WebSockets. */
  readonly connections: number;
  /** Number of open Process streams of all protocols. */
  readonly streams: number;
  /** Undelivered bytes of all streams and calls, which `maxBufferedBytes` limits. */
  readonly bufferedBytes: number;
  /** For each limit that was exceeded, the number of connections, streams and calls that it has refused or ended. */
  readonly refusals: ReadonlyMap<string, number>;
  /**
   * Listens on a further port for Process streams, with the same host, TLS, origins and codecs. The limits of this
   * listener apply to the connections of all its ports together: their number, their rates, their floods and their
   * undelivered bytes. Close the further ports before this listener.
   *
   * @throws DmEnvRpcError if the port cannot be listened on; FAILED_PRECONDITION if this listener is closing.
   */
  addPort(options: PortOptions): Promise<Listener>;
  /**
   * Refuses new connections and streams, waits until the open streams have ended or `graceMs` have
   * passed, then ends the streams that are still open. Idempotent. Resolves when every socket is closed.
   */
  close(options?: CloseOptions): Promise<void>;
}
