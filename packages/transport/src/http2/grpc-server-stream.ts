// SPDX-License-Identifier: Apache-2.0
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { goodbyeMs } from "../limits/limits.ts";
import {
  type Peer,
  refuseTooLarge,
  type ServerStream,
  type StreamReceiver,
} from "../stream/message-stream.ts";
import { codeOfReset, nameOfReset, resetOf, trailersOf } from "./grpc-status.ts";
import { Http2MessageStream, type Http2StreamOptions } from "./http2-stream.ts";

/** A stream that has ended is reset if its peer reads none of the remaining bytes for this time. */
const lingerMs = 30_000;

const responseHeaders = {
  ":status": 200,
  "content-type": "application/grpc",
  "grpc-accept-encoding": "identity,gzip",
};

/** Options of a server's stream. */
export interface GrpcServerStreamOptions
  extends Http2StreamOptions<ProcessRequest, ProcessResponse, ServerHttp2Stream> {
  readonly headers: IncomingHttpHeaders;
  readonly peer: Peer;
}

/**
 * The server's side of a gRPC call.
 *
 * `end` sends the trailers, which ends the call for both sides. After a half-close of the peer, the stream calls
 * `onEnd`. After an abort, a reset or a lost connection, it calls `onClose` with an error at once, even while
 * paused.
 */
export class GrpcServerStream
  extends Http2MessageStream<ProcessRequest, ProcessResponse, ServerHttp2Stream>
  implements ServerStream
{
  readonly peer: Peer;
  /** Error that the trailers report. */
  #status: Error | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: GrpcServerStreamOptions) {
    super(options);
    this.peer = options.peer;
    const { headers } = options;
    const encoding = headers["grpc-encoding"];
    this.encoding = typeof encoding === "string" ? encoding : undefined;
    this.http2.on("wantTrailers", () => this.#sendTrailers());
    this.http2.respond(responseHeaders, { waitForTrailers: true });
    this.#expectBefore(headers["grpc-timeout"]);
  }

  end(status?: DmEnvRpcError): void {
    if (this.done || this.ended) {
      return;
    }
    this.#endWith(this.#status ?? status);
    this.discard();
  }

  abort(error: Error): void {
    if (this.done) {
      return;
    }
    this.dropUnwritten();
    if (this.ended || this.http2.writableLength > 0) {
      // Trailers would wait until the peer reads, and without `destroy`, the reset would wait, too.
      this.finish(error);
      this.#reset(resetOf(error));
      this.http2.destroy();
    } else {
      this.#endWith(error);
      this.finish(error);
    }
  }

  protected override onHttp2End(): void {
    // A node:http2 client aborts with END_STREAM and then RST_STREAM, so this waits one turn for a
    // reset.
    setImmediate(() => super.onHttp2End());
  }

  protected override onPeerEnd(receiver: StreamReceiver<ProcessRequest>): void {
    receiver.onEnd();
  }

  protected override onTooLarge(
    receiver: StreamReceiver<ProcessRequest>,
    error: DmEnvRpcError,
  ): void {
    this.#status = error;
    this.discard();
    refuseTooLarge(receiver, error);
  }

  protected override onAborted(): void {
    this.finish(this.#lossOf());
  }

  protected override onClosed(): void {
    clearTimeout(this.#timer);
    const isNormal = this.ended && this.http2.rstCode === constants.NGHTTP2_NO_ERROR;
    this.finish(isNormal ? this.#status : this.#lossOf());
  }

  #endWith(status: Error | undefined): void {
    this.flush();
    this.ended = true;
    this.#status = status;
    if (this.http2.destroyed || this.http2.closed) {
      return;
    }
    this.http2.end();
    this.#linger(this.http2.bufferSize);
  }

  #sendTrailers(): void {
    this.http2.sendTrailers(trailersOf(this.#status));
    // node:http2 itself queues the trailers in an immediate; this immediate runs right after that one.
    setImmediate(() => {
      this.finish(this.#status);
      clearTimeout(this.#timer);
      if (!this.http2.closed) {
        this.#timer = setTimeout(() => this.#reset(constants.NGHTTP2_NO_ERROR), goodbyeMs).unref();
      }
    });
  }

  #reset(rstCode: number): void {
    if (!this.http2.destroyed && !this.http2.closed) {
      this.http2.close(rstCode);
    }
  }

  /**
   * Waits until the peer has read the remaining bytes. Resets the stream if the peer reads none of them for `lingerMs`.
   */
  #linger(left: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const { bufferSize } = this.http2;
      if (bufferSize > 0 && bufferSize < left) {
        this.#linger(bufferSize);
      } else {
        this.#reset(constants.NGHTTP2_CANCEL);
        this.finish(
          new DmEnvRpcError(
            "DEADLINE_EXCEEDED",
            `the client at ${this.peer.address} read none of the remaining bytes for ${lingerMs} ms`,
            { origin: "client" },
          ),
        );
      }
    }, lingerMs).unref();
  }

  #expectBefore(timeout: string | string[] | undefined): void {
    const timeoutMs = typeof timeout === "string" ? parseTimeoutMs(timeout) : undefined;
    if (timeoutMs === undefined) {
      return;
    }
    this.#timer = setTimeout(
      () =>
        this.abort(
          new DmEnvRpcError(
            "DEADLINE_EXCEEDED",
            `the deadline that the client set (${timeoutMs} ms) has passed`,
            { origin: "client" },
          ),
        ),
      timeoutMs,
    ).unref();
  }

  #lossOf(): Error {
    const failure = this.connectionFailure();
    if (failure !== undefined) {
      return failure;
    }
    const { rstCode } = this.http2;
    return new DmEnvRpcError(
      rstCode === constants.NGHTTP2_NO_ERROR ? "CANCELLED" : codeOfReset(rstCode),
      `the client at ${this.peer.address} reset the stream (${nameOfReset(rstCode)})`,
      { origin: "client" },
    );
  }
}

const unitMs: Record<string, number> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

/** Parses a grpc-timeout to milliseconds; undefined if it is malformed or too long for a timer. */
function parseTimeoutMs(timeout: string): number | undefined {
  const match = /^(\d{1,8})([HMSmun])$/.exec(timeout);
  const unit = unitMs[match?.[2] ?? ""];
  if (match === null || unit === undefined) {
    return undefined;
  }
  const milliseconds = Math.ceil(Number(match[1]) * unit);
  return milliseconds < 2 ** 31 ? milliseconds : undefined;
}
