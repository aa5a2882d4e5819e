// SPDX-License-Identifier: Apache-2.0
import {
  type ClientHttp2Stream,
  constants,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
} from "node:http2";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import type { ClientStream, StreamReceiver } from "../stream/message-stream.ts";
import { codeOfHttpStatus, codeOfReset, errorInTrailers, nameOfReset } from "./grpc-status.ts";
import { Http2MessageStream, type Http2StreamOptions } from "./http2-stream.ts";

/** Options of a client's stream. */
export interface GrpcClientStreamOptions
  extends Http2StreamOptions<ProcessResponse, ProcessRequest, ClientHttp2Stream> {
  /** Address of the server, for error messages. */
  readonly address: string;
  /** Resets the call with CANCEL, without ending it first. */
  readonly cancel: () => void;
}

/**
 * The client's side of a gRPC call.
 *
 * The server's trailers end the call for both sides. With the status OK, the stream calls `onEnd`, then `onClose`. With
 * any other status, it calls only `onClose`, with the status as an error. If the call ends without trailers, `onClose`
 * receives an error, too.
 */
export class GrpcClientStream
  extends Http2MessageStream<ProcessResponse, ProcessRequest, ClientHttp2Stream>
  implements ClientStream
{
  readonly #address: string;
  readonly #cancel: () => void;
  #trailers: IncomingHttpHeaders | undefined;

  constructor(options: GrpcClientStreamOptions) {
    super(options);
    this.#address = options.address;
    this.#cancel = options.cancel;
    this.http2.on("response", (headers) => this.#onResponse(headers));
    this.http2.on("trailers", (trailers) => {
      this.#trailers = trailers;
    });
  }

  end(): void {
    if (this.done || this.ended) {
      return;
    }
    this.flush();
    this.ended = true;
    this.http2.end();
  }

  abort(error: Error): void {
    if (this.done) {
      return;
    }
    if (this.http2.closed) {
      this.#free();
    } else if (!this.http2.destroyed) {
      this.#cancel();
    }
    this.finish(error);
  }

  protected override onPeerEnd(receiver: StreamReceiver<ProcessResponse>): void {
    const error = errorInTrailers(this.#trailers ?? {});
    if (error === undefined) {
      receiver.onEnd();
    }
    if (this.http2.closed) {
      this.#free();
    } else if (!this.http2.destroyed) {
      this.http2.close(constants.NGHTTP2_NO_ERROR);
    }
    this.finish(error);
  }

  protected override onTooLarge(
    _receiver: StreamReceiver<ProcessResponse>,
    error: DmEnvRpcError,
  ): void {
    this.abort(error);
  }

  protected override onAborted(): void {
    // Trailers that arrived in the same packet as the reset are emitted in a later tick.
    process.nextTick(() => {
      if (this.#trailers === undefined || this.http2.rstCode !== constants.NGHTTP2_NO_ERROR) {
        this.onClosed();
        this.#free();
      }
    });
  }

  protected override onClosed(): void {
    // A call that ended with trailers may still have messages to deliver, if it is paused.
    if (!(this.peerEnded && this.#trailers !== undefined)) {
      this.finish(this.#lossOf());
    }
  }

  #onResponse(headers: IncomingHttpHeaders & IncomingHttpStatusHeader): void {
    const status = headers[":status"] ?? 0;
    const contentType = String(headers["content-type"] ?? "");
    if (status !== 200 || !contentType.startsWith("application/grpc")) {
      this.abort(
        headers["grpc-status"] !== undefined
          ? (errorInTrailers(headers) ?? notGrpc(this.#address, status, contentType))
          : notGrpc(this.#address, status, contentType),
      );
      return;
    }
    const encoding = headers["grpc-encoding"];
    this.encoding = typeof encoding === "string" ? encoding : undefined;
    if (headers["grpc-status"] !== undefined) {
      this.#trailers = headers;
    }
  }

  /** Ends the wait of node:http2, after a reset with NO_ERROR, for the server to read what it no longer receives. */
  #free(): void {
    this.http2.destroy();
  }

  #lossOf(): Error {
    const failure = this.connectionFailure();
    if (failure !== undefined) {
      return failure;
    }
    const { rstCode } = this.http2;
    if (rstCode === constants.NGHTTP2_NO_ERROR) {
      return new DmEnvRpcError(
        "UNAVAILABLE",
        `the server at ${this.#address} ended the stream without a status`,
        { origin: "connection", cause: this.lastError },
      );
    }
    return new DmEnvRpcError(
      codeOfReset(rstCode),
      `the server at ${this.#address} reset the stream (${nameOfReset(rstCode)})`,
      { origin: "connection", cause: this.lastError },
    );
  }
}

function notGrpc(address: string, status: number, contentType: string): DmEnvRpcError {
  return new DmEnvRpcError(
    codeOfHttpStatus(status),
    `expected a gRPC server at ${address}, received HTTP ${status} ${contentType || "without a content type"}; check the address and the protocol`,
    { origin: "connection" },
  );
}
