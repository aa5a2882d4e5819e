// SPDX-License-Identifier: Apache-2.0
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { prefixBytes } from "../../internal/envelope.ts";
import type {
  BufferedBytes,
  ByteAccount,
  ByteHolder,
  ConnectionBytes,
} from "../../limits/buffered-bytes.ts";
import { pieceBytes } from "../../limits/limits.ts";
import { processPath } from "../../stream/process-path.ts";
import { refuseForNow } from "./refusals.ts";
import { RequestBytes, type RequestEvents } from "./request-bytes.ts";

/** Counts the bytes and the pieces of a request in an account. */
export abstract class CountedRequest implements RequestEvents {
  readonly pieceBytes: number;
  protected abstract readonly account: ByteAccount;
  #hasPiece = false;

  constructor(path: string | undefined) {
    // A call of Process has many short requests, so only the smallest chunks are pieces. Other calls have few requests.
    this.pieceBytes = path === processPath ? prefixBytes : pieceBytes;
  }

  onGrowth(): void {
    this.account.count();
  }

  onPiece(): void {
    const isFirst = !this.#hasPiece; // The first small chunk may be the whole request.
    this.#hasPiece = true;
    if (!isFirst && !this.account.piece()) {
      this.onTooManyPieces();
    }
  }

  /** Called when the request arrives in more pieces than an honest client sends. */
  protected abstract onTooManyPieces(): void;
}

/**
 * The account of a call of a route over HTTP/2. It counts the call's headers, and its undelivered bytes in both
 * directions.
 */
export class CallBytes extends CountedRequest implements ByteHolder {
  readonly isWaitingForPeer: boolean = false; // `idleStreamMs` ends a request that stalls.
  readonly request: RequestBytes;
  readonly account: ByteAccount;
  readonly #http2: ServerHttp2Stream;
  readonly #headers: IncomingHttpHeaders;
  readonly #headerBytes: number;
  #hasFailed = false;

  constructor(
    buffered: BufferedBytes,
    connection: ConnectionBytes,
    http2: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: readonly string[],
  ) {
    super(headers[":path"]);
    this.#http2 = http2;
    this.#headers = headers;
    this.#headerBytes = rawHeaders.reduce((sum, text) => sum + text.length, 0);
    this.account = buffered.open(connection, this);
    this.request = new RequestBytes(http2, this);
  }

  get unreportedBytes(): number {
    return this.#headerBytes + this.request.bytes + this.#http2.writableLength;
  }

  fail(error: DmEnvRpcError): void {
    const http2 = this.#http2;
    if (this.#hasFailed) {
      http2.destroy(); // A peer that does not read does not receive the error either.
      return;
    }
    this.#hasFailed = true;
    if (http2.headersSent || http2.destroyed || http2.closed) {
      http2.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    } else {
      refuseForNow(http2, this.#headers, error);
    }
  }

  protected override onTooManyPieces(): void {
    this.#http2.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }
}
