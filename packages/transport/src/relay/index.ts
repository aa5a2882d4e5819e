// SPDX-License-Identifier: Apache-2.0
/**
 * Streams of programs that dial out to a relay, and the relay's side of these streams. It has no `node:` imports,
 * because pages dial out, too.
 */

export {
  BufferedBytes,
  type ByteAccount,
  type ByteHolder,
  type ConnectionBytes,
  connectionBytes,
} from "../limits/buffered-bytes.ts";
export type { Socket } from "../websocket/websocket-stream.ts";
export { WebSocketStream } from "../websocket/websocket-stream.ts";
export { type DialRelayOptions, dialRelay, type RelayPlace } from "./dial-relay.ts";
export { Link, type LinkOptions, maxFrameBytes, relayPath, relaySubprotocol } from "./link.ts";
export { rawCodecs, rawResponse } from "./raw-codec.ts";
