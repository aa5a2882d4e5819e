// SPDX-License-Identifier: Apache-2.0
/** Process streams over HTTP/2, WebSockets and in memory, for servers and for clients. */

export { peerOfCall } from "./connect/connect-stream.ts";
export { maxTimeoutMs } from "./internal/time/time-source.ts";
export { type Limit, type LimitsOf, readLimits } from "./limits/limit-table.ts";
export { type ListenLimits, ListenLimitTable } from "./limits/listen-limits.ts";
export { listen } from "./listen/listen.ts";
export type {
  ByteCall,
  ByteStream,
  CloseOptions,
  Listener,
  ListenOptions,
  ListenTls,
  PortOptions,
  RouteCall,
  ServedFile,
  WebSocketRoute,
} from "./listen/listen-options.ts";
export type { Metadata } from "./open/metadata.ts";
export { type OpenConnectOptions, openConnectStream } from "./open/open-connect-stream.ts";
export type { ConnectionOptions, OpenOptions, OpenTls } from "./open/open-options.ts";
export { openStream } from "./open/open-stream.ts";
export type { OpenedStream } from "./open/opened-stream.ts";
export { type Address, isLoopback, parseAddress } from "./stream/address.ts";
export type { CallCodecs } from "./stream/call-codecs.ts";
export { type MemoryStreamOptions, memoryStreamPair } from "./stream/memory-stream.ts";
export type {
  ClientStream,
  MessageStream,
  Peer,
  ServerStream,
  StreamReceiver,
  UnreadMessage,
} from "./stream/message-stream.ts";
