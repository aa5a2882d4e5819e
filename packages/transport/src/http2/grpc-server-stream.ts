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
import { type CallProtocol, deadlinePassed, endsInTrailers } from "./call-protocols.ts";
import { codeOfReset, nameOfReset, resetOf, trailersOf } from "./grpc-status.ts";
import { Http2MessageStream, type Http2StreamOptions } from "./http2-stream.ts";

/** A stream that has ended is reset if its peer reads none of the remaining bytes for this time. */
const lingerMs = 30_000;

/**
 * Value of `goodbyeMs` for a refused call: longer than a round trip. After a reset, DATA that the client has sent already would
 * count as a flood.
 */
const refusedGoodbyeMs = 250;

/** Options of a server's stream. */
export interface GrpcServerStreamOptions
  extends Http2StreamOptions<ProcessRequest, ProcessResponse, ServerHttp2Stream> {
  readonly headers: IncomingHttpHeaders;
  readonly protocol: CallProtocol;
  /** Headers of the response in addition to those of the protocol. */
  readonly responseHeaders: Readonly<Record<string, string>>;
  readonly peer: Peer;
  /** Counts the call as refused for its connection. */
  readonly countRefused: () => void;
}

/**
 * The server's side of a call of Process, in a protocol with gRPC's frames.
 *
 * `end` sends the status, which ends the call for both sides. After a half-close of the peer, the stream calls
 * `onEnd`. After an abort, a reset or a lost connection, it calls `onClose` with an error at once, even while
 * paused.
 */
export class GrpcServerStream
  extends Http2MessageStream<ProcessRequest, ProcessResponse, ServerHttp2Stream>
  implements ServerStream
{
  readonly peer: Peer;
  readonly #protocol: CallProtocol;
  readonly #countRefused: () => void;
  /** Time for the client to end its side after the trailers. */
  #goodbyeMs = goodbyeMs;
  /** Error with which the call ends. */
  #status: Error | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: GrpcServerStreamOptions) {
    super(options);
    this.peer = options.peer;
    this.#countRefused = options.countRefused;
    const { headers, protocol } = options;
    this.#protocol = protocol;
    const encoding = headers[protocol.encodingHeader];
    this.encoding = typeof encoding === "string" ? encoding : undefined;
    this.http2.on("wantTrailers", () => this.#sendTrailers());
    this.http2.respond(
      { ":status": 200, ...protocol.responseHeaders, ...options.responseHeaders },
      { waitForTrailers: true },
    );
    this.#expectWithin(protocol.timeoutMs(headers));
  }

  end(status?: DmEnvRpcError): void {
    if (this.done || this.ended) {
      return;
    }
    this.#endWith(this.#status ?? status);
    this.discard();
  }

  countRefused(): void {
    this.#goodbyeMs = refusedGoodbyeMs;
    this.#countRefused();
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
    this.http2.end(this.#protocol.end(status));
    this.#linger(this.http2.bufferSize);
  }

  #sendTrailers(): void {
    this.http2.sendTrailers(endsInTrailers(this.#protocol) ? trailersOf(this.#status) : {});
    // node:http2 itself queues the trailers in an immediate; this immediate runs right after that one.
    setImmediate(() => {
      this.finish(this.#status);
      clearTimeout(this.#timer);
      if (!this.http2.closed) {
        this.#timer = setTimeout(
          () => this.#reset(constants.NGHTTP2_NO_ERROR),
          this.#goodbyeMs,
        ).unref();
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

  #expectWithin(timeoutMs: number | undefined): void {
    if (timeoutMs === undefined) {
      return;
    }
    this.#timer = setTimeout(() => this.abort(deadlinePassed(timeoutMs)), timeoutMs).unref();
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
