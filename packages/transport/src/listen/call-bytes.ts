// SPDX-License-Identifier: Apache-2.0
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { ReadAhead } from "../http2/read-ahead.ts";
import { prefixBytes } from "../internal/envelope.ts";
import {
  type BufferedBytes,
  type ByteAccount,
  type ByteHolder,
  type ConnectionBytes,
  pieceBytes,
} from "../limits/buffered-bytes.ts";
import { processPath } from "../stream/process-path.ts";
import { refuseForNow } from "./refusals.ts";

/**
 * Opens the account of a call of a route. It counts the call's headers, and its undelivered bytes in both directions.
 */
export function openCallAccount(
  buffered: BufferedBytes,
  connection: ConnectionBytes,
  http2: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  rawHeaders: readonly string[],
): ByteAccount {
  const headerBytes = rawHeaders.reduce((sum, text) => sum + text.length, 0);
  // A call of Process has many short requests, so only the smallest chunks are pieces. Other calls have few requests.
  const isProcess = headers[":path"] === processPath;
  let hasPiece = false;
  const readAhead = new ReadAhead(http2, {
    pieceBytes: isProcess ? prefixBytes : pieceBytes,
    onGrowth: () => account.count(),
    onPiece: () => {
      const isFirst = !hasPiece; // The first small chunk may be the whole request.
      hasPiece = true;
      if (!isFirst && !account.piece()) {
        http2.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
      }
    },
  });
  let failed = false;
  const account = buffered.open(connection, {
    isWaitingForPeer: false, // `idleStreamMs` ends a request that stalls.
    get unreportedBytes() {
      const { readableLength, writableLength } = http2;
      return headerBytes + readAhead.overheadBytes + readableLength + writableLength;
    },
    fail(error) {
      if (failed) {
        http2.destroy(); // A peer that does not read does not receive the error either.
        return;
      }
      failed = true;
      if (http2.headersSent || http2.destroyed) {
        http2.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
      } else {
        refuseForNow(http2, headers, error);
      }
    },
  });
  return account;
}

/** Returns the holder of an HTTP/1.1 connection's undelivered bytes. */
export function bytesOfSocket(socket: Socket): ByteHolder {
  return {
    isWaitingForPeer: false,
    get unreportedBytes() {
      return socket.readableLength + socket.writableLength;
    },
    fail: () => socket.destroy(),
  };
}
