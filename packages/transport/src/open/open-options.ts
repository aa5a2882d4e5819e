// SPDX-License-Identifier: Apache-2.0
import type { CallCodecs } from "../stream/call-codecs.ts";
import type { Metadata } from "./metadata.ts";

/**
 * Default interval of a client's pings: 5.5 minutes. Other gRPC servers refuse pings at less than
 * five minutes (GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS).
 */
export const defaultPingIntervalMs = 330_000;

/** Certificates of a client, in PEM. */
export interface OpenTls {
  /** Authorities that the server's certificate is verified against. Default: the system's store. */
  readonly ca?: string | Uint8Array | ReadonlyArray<string | Uint8Array> | undefined;
  /** Certificate and key of the client, for servers that request one (mTLS). */
  readonly cert?: string | Uint8Array | undefined;
  readonly key?: string | Uint8Array | undefined;
  readonly passphrase?: string | undefined;
  /** Name expected in the server's certificate. Default: the host of the address. */
  readonly serverName?: string | undefined;
  /** False accepts any certificate; for tests only. Default true. */
  readonly rejectUnauthorized?: boolean | undefined;
}

/** Options of a connection. */
export interface ConnectionOptions {
  readonly tls?: OpenTls | undefined;
  /** Time limit for connecting, up to the first frame of the server, in ms. Default 10,000. */
  readonly connectTimeoutMs?: number | undefined;
  /**
   * Interval of the pings to the server, in ms; the connection is closed if a ping is not answered
   * within one interval. Other gRPC servers close connections that ping too often; ask the server's
   * operator before you go below 300,000. 0 disables pings. Default: 330,000 over HTTP/2, 0 over WebSockets.
   * Even without pings, TCP keep-alive detects a lost server within about 30 s while nothing is being sent.
   */
  readonly pingIntervalMs?: number | undefined;
  /**
   * Called with each IP address of the server's host before a connection is made. To refuse the address, throw a
   * DmEnvRpcError, with which connecting then fails. The connection uses only addresses that were checked. Not called
   * for a Unix domain socket; must be omitted in pages. Default: accepts every address.
   */
  readonly checkIp?: ((ip: string) => void) | undefined;
  /** Cancels connecting. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of `openStream`. */
export interface OpenOptions extends ConnectionOptions {
  /** Metadata of the call: names in lower case, values in printable ASCII. */
  readonly metadata?: Metadata | undefined;
  /** Size limit of a message, also after inflation, in bytes. Default 64 MiB. */
  readonly maxMessageBytes?: number | undefined;
  /** Codecs of both directions. Default: tensor-codec's with their default limits. */
  readonly codecs?: CallCodecs | undefined;
}
