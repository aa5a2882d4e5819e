// SPDX-License-Identifier: Apache-2.0
import type { CallCodecs } from "../stream/call-codecs.ts";
import type { ClientStream } from "../stream/message-stream.ts";
import type { ConnectionOptions } from "./client-connection.ts";
import type { Metadata } from "./metadata.ts";

/** Options of `openStream`. */
export interface OpenOptions extends ConnectionOptions {
  /** Metadata of the call: names in lower case, values in printable ASCII. */
  readonly metadata?: Metadata | undefined;
  /** Most bytes of one message, also after inflation. Default 64 MiB. */
  readonly maxMessageBytes?: number | undefined;
  /** Codecs of both directions. Default: tensor-codec's with their default limits. */
  readonly codecs?: CallCodecs | undefined;
}

/** A stream to a server, with its connection. */
export interface OpenedStream extends ClientStream, AsyncDisposable {
  /** `host:port` of the server. */
  readonly address: string;
  /**
   * Closes the connection; a stream that is still open is aborted. Idempotent; resolves
   * when the socket is closed. The connection of a stream that has closed closes by itself.
   */
  close(): Promise<void>;
}
