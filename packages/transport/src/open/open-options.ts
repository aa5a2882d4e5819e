// SPDX-License-Identifier: Apache-2.0
import type { CallCodecs } from "../stream/call-codecs.ts";
import type { Metadata } from "./metadata.ts";

/** Certificates of a client; all are PEM. */
export interface OpenTls {
  /** Whom the server's certificate is checked against; the default is the system's store. */
  readonly ca?: string | Uint8Array | ReadonlyArray<string | Uint8Array> | undefined;
  /** The client's own certificate and its key, for servers that ask for one (mTLS). */
  readonly cert?: string | Uint8Array | undefined;
  readonly key?: string | Uint8Array | undefined;
  readonly passphrase?: string | undefined;
  /** The name to expect in the server's certificate, where it is not the host of the address. */
  readonly serverName?: string | undefined;
  /** False takes any certificate; for tests only. Default true. */
  readonly rejectUnauthorized?: boolean | undefined;
}

/** How a connection is made and kept. */
export interface ConnectionOptions {
  readonly tls?: OpenTls | undefined;
  /** How long connecting may take, to the first word of the server. Default 10,000. */
  readonly connectTimeoutMs?: number | undefined;
  /**
   * Pings the server this often and gives the connection up when one is unanswered for as
   * long. Default 0: off. Servers of other makes close connections that ping too often;
   * below 300,000 ask the server's operator first.
   */
  readonly pingIntervalMs?: number | undefined;
  /** Gives up connecting. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of `openStream`. */
export interface OpenOptions extends ConnectionOptions {
  /** Metadata of the call: names in lower case, values in printable ASCII. */
  readonly metadata?: Metadata | undefined;
  /** Most bytes of one message, also after inflation. Default 64 MiB. */
  readonly maxMessageBytes?: number | undefined;
  /** Codecs of both directions. Default: tensor-codec's with their default limits. */
  readonly codecs?: CallCodecs | undefined;
}
