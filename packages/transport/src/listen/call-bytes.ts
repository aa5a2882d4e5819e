// SPDX-License-Identifier: Apache-2.0
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { ByteHolder } from "../limits/buffered-bytes.ts";
import { refuseForNow } from "./refusals.ts";

/** Returns the undelivered bytes of a call of a route: its headers, and the bytes that wait in either direction. */
export function bytesOfCall(
  http2: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  rawHeaders: readonly string[],
): ByteHolder {
  const headerBytes = rawHeaders.reduce((sum, text) => sum + text.length, 0);
  let failed = false;
  return {
    isWaitingForPeer: false, // `idleStreamMs` ends a request that stalls.
    get unreportedBytes() {
      return headerBytes + http2.readableLength + http2.writableLength;
    },
    fail(error) {
      if (failed) {
        http2.destroy(); // A peer that does not read would not receive the error.
        return;
      }
      failed = true;
      if (http2.headersSent || http2.destroyed) {
        http2.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
      } else {
        refuseForNow(http2, headers, error);
      }
    },
  };
}

/** Returns the undelivered bytes of an HTTP/1.1 connection. */
export function bytesOfSocket(socket: Socket): ByteHolder {
  return {
    isWaitingForPeer: false,
    get unreportedBytes() {
      return socket.readableLength + socket.writableLength;
    },
    fail: () => socket.destroy(),
  };
}
