// SPDX-License-Identifier: Apache-2.0
/** Process streams over HTTP/2, for servers and for clients. */
export { type Address, isLoopback, parseAddress } from "./address.ts";
export type { CallCodecs } from "./call-codecs.ts";
export type { ConnectionOptions, OpenTls } from "./client-connection.ts";
export { peerOfCall } from "./connect-stream.ts";
export { type Limit, type LimitsOf, readLimits } from "./limit-table.ts";
export { maxTimeoutMs } from "./limits.ts";
export { listen } from "./listen.ts";
export { type ListenLimits, ListenLimitTable } from "./listen-limits.ts";
export type { CloseOptions, Listener, ListenOptions, ListenTls } from "./listen-options.ts";
export { type MemoryStreamOptions, memoryStreamPair } from "./memory-stream.ts";
export type {
  ClientStream,
  MessageStream,
  Peer,
  ServerStream,
  StreamReceiver,
} from "./message-stream.ts";
export type { Metadata } from "./metadata.ts";
export { type OpenConnectOptions, openConnectStream } from "./open-connect-stream.ts";
export { openStream } from "./open-stream.ts";
export type { OpenedStream, OpenOptions } from "./opened-stream.ts";
