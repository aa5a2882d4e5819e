// SPDX-License-Identifier: Apache-2.0
/**
 * Process streams for pages: the part of this package that works without Node, over the platform's
 * WebSocket and in memory.
 */

export { peerOfCall } from "./connect/connect-stream.ts";
export { maxTimeoutMs } from "./internal/time/time-source.ts";
export { type Limit, type LimitsOf, readLimits } from "./limits/limit-table.ts";
export { type ListenLimits, ListenLimitTable } from "./limits/listen-limits.ts";
export type { ByteCall, ByteStream } from "./listen/listen-options.ts";
export type { Metadata } from "./open/metadata.ts";
export type { OpenOptions } from "./open/open-options.ts";
export { openStream } from "./open/open-page-stream.ts";
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
} from "./stream/message-stream.ts";
