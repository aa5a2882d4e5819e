// SPDX-License-Identifier: Apache-2.0
/** Process streams for pages: what there is of this package without Node, over the platform's WebSocket. */
export { type Address, isLoopback, parseAddress } from "./address.ts";
export type { CallCodecs } from "./call-codecs.ts";
export { type Limit, type LimitsOf, readLimits } from "./limit-table.ts";
export { maxTimeoutMs } from "./limits.ts";
export type {
  ClientStream,
  MessageStream,
  Peer,
  ServerStream,
  StreamReceiver,
} from "./message-stream.ts";
export type { Metadata } from "./metadata.ts";
export type { OpenedStream, OpenOptions } from "./opened-stream.ts";
export { openStream } from "./websocket/open-page-stream.ts";
