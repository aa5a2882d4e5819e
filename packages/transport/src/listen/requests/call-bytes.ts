// SPDX-License-Identifier: Apache-2.0
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { Readable } from "node:stream";
import { prefixBytes } from "../../internal/envelope.ts";
import {
  type BufferedBytes,
  type ByteAccount,
  type ConnectionBytes,
  pieceBytes,
} from "../../limits/buffered-bytes.ts";
import { processPath } from "../../stream/process-path.ts";
import { refuseForNow } from "./refusals.ts";
import { RequestBytes } from "./request-bytes.ts";

/** The account of a call of a route, and the bytes of its request. */
export interface CallBytes {
  readonly account: ByteAccount;
  readonly requestBytes: RequestBytes;
}

/**
 * Opens the account of a call of a route. It counts the call's headers, and its undelivered bytes in both directions.
 */
export function openCallAccount(
  buffered: BufferedBytes,
  connection: ConnectionBytes,
  http2: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  rawHeaders: readonly string[],
): CallBytes {
  const headerBytes = rawHeaders.reduce((sum, text) => sum + text.length, 0);
  let failed = false;
  const account = buffered.open(connection, {
    isWaitingForPeer: false, // `idleStreamMs` ends a request that stalls.
    get unreportedBytes() {
      return headerBytes + requestBytes.bytes + http2.writableLength;
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
  const requestBytes = countRequest(http2, headers[":path"], account, () =>
    http2.close(constants.NGHTTP2_ENHANCE_YOUR_CALM),
  );
  return { account, requestBytes };
}

/**
 * Counts the bytes of a request as they arrive.
 *
 * @param onTooManyPieces Called when the request arrives in more pieces than an honest client sends.
 */
export function countRequest(
  readable: Readable,
  path: string | undefined,
  account: ByteAccount,
  onTooManyPieces: () => void,
): RequestBytes {
  let hasPiece = false;
  return new RequestBytes(readable, {
    // A call of Process has many short requests, so only the smallest chunks are pieces. Other calls have few requests.
    pieceBytes: path === processPath ? prefixBytes : pieceBytes,
    onGrowth: () => account.count(),
    onPiece: () => {
      const isFirst = !hasPiece; // The first small chunk may be the whole request.
      hasPiece = true;
      if (!isFirst && !account.piece()) {
        onTooManyPieces();
      }
    },
  });
}
