// SPDX-License-Identifier: Apache-2.0
import type { ConnectRouter, ContextValues } from "@connectrpc/connect";
import type { ListenLimits } from "../limits/listen-limits.ts";
import type { CallCodecs } from "../stream/call-codecs.ts";
import type { Peer, ServerStream } from "../stream/message-stream.ts";

/** The certificates of a listener; all are PEM. */
export interface ListenTls {
  /** The server's certificate, with its chain. */
  readonly cert: string | Uint8Array;
  readonly key: string | Uint8Array;
  readonly passphrase?: string | undefined;
  /** Whom client certificates are checked against; the default is the system's store. */
  readonly ca?: string | Uint8Array | ReadonlyArray<string | Uint8Array> | undefined;
  /**
   * Whether clients are asked for a certificate (mTLS). `optional` lets in clients
   * without a certificate, or with one that does not verify: their `peer.certificate`
   * is undefined. Default `none`.
   */
  readonly clientCertificates?: "none" | "optional" | "required" | undefined;
}

/** A call of one of a listener's `routes`. */
export interface RouteCall {
  /** Such as `/grpc.health.v1.Health/Check`. */
  readonly path: string;
  /** The object that `peerOfCall` returns for this call. */
  readonly peer: Peer;
}

/**
 * Answers calls of a method of one request and many responses with bytes: what many callers get is encoded once.
 *
 * @param request The request's protobuf.
 * @returns Responses as `envelope` makes them of their protobuf.
 */
export type ByteStream = (
  request: Uint8Array,
  call: { readonly values: ContextValues; readonly signal: AbortSignal },
) => AsyncIterable<Uint8Array>;

/** A file that a listener serves. */
export interface ServedFile {
  /** Headers of its response, by lower-case name: its `content-type` and whatever else. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** The body compressed by gzip, for clients that accept it. */
  readonly gzip?: Uint8Array | undefined;
}

/** How a listener listens, and what it allows. */
export interface ListenOptions extends Partial<ListenLimits> {
  /** Takes each Process stream, of any protocol. Called synchronously; it must not throw. */
  readonly onStream: (stream: ServerStream) => void;
  /** Further services on the same port: health, reflection and what else there is. */
  readonly routes?: ((router: ConnectRouter) => void) | undefined;
  /**
   * Admits a call of `routes` before its request is read: returns a function to call once when the call has ended, or
   * throws the error to refuse it with; of a ConnectError, its metadata is sent, too. Default: admits every call.
   */
  readonly onCall?: ((call: RouteCall) => () => void) | undefined;
  /**
   * The address to listen on, or `unix:/path` for a Unix domain socket, whose file is made, and removed by `close`.
   * Default 127.0.0.1.
   */
  readonly host?: string | undefined;
  /** The port to listen on; 0 picks one that is free. Has no meaning for a Unix domain socket. Default 0. */
  readonly port?: number | undefined;
  /** Serves TLS instead of plain text; Connect calls may come over HTTP/1.1 then, too. */
  readonly tls?: ListenTls | undefined;
  /**
   * Origins of the pages that may use this server, such as `https://play.example.org`; `*` for all. Default: none
   * but pages that this server serves itself.
   */
  readonly allowedOrigins?: readonly string[] | undefined;
  /**
   * Methods of `routes`, by path, that are answered with bytes where a caller takes them as they are: binary,
   * uncompressed and without a deadline. Default: none.
   */
  readonly byteStreams?: ReadonlyMap<string, ByteStream> | undefined;
  /** Files that the listener serves to pages, by path, such as `/page.js`. Default: none. */
  readonly files?: ReadonlyMap<string, ServedFile> | undefined;
  /** How messages become bytes. Default: tensor-codec's codecs with their default limits. */
  readonly codecs?: CallCodecs | undefined;
  /**
   * Is told what goes wrong and reaches nobody else: a peer that speaks no HTTP/2, a failed TLS
   * handshake, a connection beyond `maxConnections`, a broken response of a route. Default: nothing.
   */
  readonly onError?: ((error: Error) => void) | undefined;
}

/** How a listener is closed. */
export interface CloseOptions {
  /** How long streams may go on before they are cut. Default 1,000. */
  readonly graceMs?: number | undefined;
}

/** A port that is listened on. */
export interface Listener extends AsyncDisposable {
  /** As it was given. */
  readonly host: string;
  /** 0 for a Unix domain socket. */
  readonly port: number;
  /** `http://host:port`, `https://host:port` or `unix:/path`. */
  readonly url: string;
  /** Connections open now, HTTP/1.1 ones included. */
  readonly connections: number;
  /** Process streams open now, over all protocols. */
  readonly streams: number;
  /**
   * Takes no new connections and no new streams, waits until the streams have ended or `graceMs`
   * have passed, then ends what is left. Idempotent; resolves when every socket is closed.
   */
  close(options?: CloseOptions): Promise<void>;
}
