// SPDX-License-Identifier: Apache-2.0
import type { IncomingMessage, ServerResponse } from "node:http";
import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { type ContextValues, createContextValues } from "@connectrpc/connect";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { setPeer } from "../connect/connect-stream.ts";
import { prefixBytes } from "../internal/envelope.ts";
import { goodbyeMs } from "../limits/limits.ts";
import type { Peer } from "../stream/message-stream.ts";
import type { ByteCall } from "./listen-options.ts";
import type { RequestBytes } from "./requests/request-bytes.ts";

/** The HTTP request and response of a call that a `ByteStream` (a function that sends encoded responses) answers. */
export interface ByteExchange extends ByteCall {
  readonly contentType: string;
  /** True once nothing more can be sent: the response has ended, or the caller is gone. */
  readonly isGone: boolean;
  /**
   * Reads the one message of the request, once.
   *
   * @param most Maximum size of the message, in bytes.
   * @throws DmEnvRpcError RESOURCE_EXHAUSTED if the message is larger, INVALID_ARGUMENT if the body is not exactly one
   *   message, or an error if the caller is gone.
   */
  read(most: number): Promise<Uint8Array>;
  /** Ends the response with the last part of its body, or with trailers. All later calls have no effect. */
  end(last: Uint8Array | undefined, trailers: Readonly<Record<string, string>>): void;
}

/** The part of an exchange that does not depend on the version of HTTP. */
abstract class Exchange<Response extends ServerResponse | ServerHttp2Stream>
  implements ByteExchange
{
  readonly contentType: string;
  protected readonly response: Response;
  protected readonly requestBytes: RequestBytes;
  readonly #peer: Peer;
  #values: ContextValues | undefined;
  #gone: AbortController | undefined;

  constructor(
    response: Response,
    headers: IncomingHttpHeaders,
    requestBytes: RequestBytes,
    peer: Peer,
  ) {
    this.response = response;
    this.requestBytes = requestBytes;
    this.#peer = peer;
    this.contentType = headers["content-type"] ?? "";
  }

  // Values and signal are created when they are first read, because most calls of a flood never read them.

  get values(): ContextValues {
    this.#values ??= callValues(this.#peer);
    return this.#values;
  }

  get signal(): AbortSignal {
    if (this.#gone === undefined) {
      const gone = new AbortController();
      this.#gone = gone;
      if (this.isGone) {
        gone.abort(callerGone);
      } else {
        this.response.on("close", () => gone.abort(callerGone));
      }
    }
    return this.#gone.signal;
  }

  onClose(listener: () => void): void {
    if (this.response.destroyed || this.response.closed) {
      listener();
    } else {
      this.response.on("close", listener);
    }
  }

  get isGone(): boolean {
    const { writableEnded, destroyed, closed } = this.response;
    return writableEnded || destroyed || closed;
  }

  send(framed: Uint8Array): boolean {
    if (this.isGone) {
      return true;
    }
    this.begin();
    return this.response.write(framed);
  }

  drained(): Promise<void> {
    const { response } = this;
    return new Promise((resolve) => {
      const settle = (): void => {
        response.off("drain", settle);
        response.off("close", settle);
        resolve();
      };
      response.on("drain", settle);
      response.on("close", settle);
    });
  }

  end(last: Uint8Array | undefined, trailers: Readonly<Record<string, string>>): void {
    if (this.isGone) {
      return;
    }
    this.begin();
    this.addTrailers(trailers);
    this.response.end(last);
    this.#gone?.abort(callerGone);
  }

  abstract read(most: number): Promise<Uint8Array>;
  /** Sends the headers of the response, or makes the first write send them. */
  protected abstract begin(): void;
  protected abstract addTrailers(trailers: Readonly<Record<string, string>>): void;
}

/** Creates the exchange of an HTTP/1.1 request. */
export function http1Exchange(
  request: IncomingMessage,
  response: ServerResponse,
  requestBytes: RequestBytes,
  peer: Peer,
): ByteExchange {
  return new Http1Exchange(request, response, requestBytes, peer);
}

class Http1Exchange extends Exchange<ServerResponse> {
  readonly #request: IncomingMessage;

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    requestBytes: RequestBytes,
    peer: Peer,
  ) {
    super(response, request.headers, requestBytes, peer);
    this.#request = request;
  }

  async read(most: number): Promise<Uint8Array> {
    const body = new RequestBody(most);
    const chunks = this.#request.iterator({ destroyOnReturn: false });
    try {
      for await (const chunk of this.requestBytes.countRead(chunks, false)) {
        body.add(chunk);
      }
    } finally {
      this.#request.resume(); // Drops the rest of the body.
    }
    return body.message();
  }

  protected override begin(): void {
    if (this.response.headersSent) {
      return;
    }
    this.response.statusCode = 200;
    this.response.setHeader("content-type", this.contentType);
    // The close of the connection ends the body. Chunked encoding would need no close, but three writes for each
    // response.
    this.response.setHeader("connection", "close");
    this.response.removeHeader("transfer-encoding");
  }

  protected override addTrailers(): void {
    // The body itself reports how the call ended: `byteProtocolOf` does not support gRPC over HTTP/1.1.
  }
}

/**
 * Creates the exchange of an HTTP/2 stream, without the request and response objects of node:http2 and their memory.
 *
 * @param extra Further headers of the response.
 */
export function http2Exchange(
  http2: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  requestBytes: RequestBytes,
  peer: Peer,
  extra: Readonly<Record<string, string>>,
): ByteExchange {
  return new Http2Exchange(http2, headers, requestBytes, peer, extra);
}

class Http2Exchange extends Exchange<ServerHttp2Stream> {
  readonly #extra: Readonly<Record<string, string>>;

  constructor(
    http2: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    requestBytes: RequestBytes,
    peer: Peer,
    extra: Readonly<Record<string, string>>,
  ) {
    super(http2, headers, requestBytes, peer);
    this.#extra = extra;
  }

  async read(most: number): Promise<Uint8Array> {
    const body = new RequestBody(most);
    this.requestBytes.begin(false);
    try {
      await this.#readInto(body);
    } finally {
      this.requestBytes.end();
    }
    return body.message();
  }

  /** Reads the whole request. Leaves no listeners, which would hold the request while the call is answered. */
  #readInto(body: RequestBody): Promise<void> {
    const { response: http2, requestBytes } = this;
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        http2.off("data", onData);
        http2.off("end", onEnd);
        http2.off("close", onClose);
      };
      const onData = (chunk: Buffer): void => {
        try {
          body.add(requestBytes.read(chunk));
        } catch (error) {
          stop();
          http2.resume(); // Drops the rest of the body.
          reject(error);
        }
      };
      const onEnd = (): void => {
        stop();
        if (this.isGone) {
          reject(callerGone); // The close of a stream also ends its body.
        } else {
          resolve();
        }
      };
      const onClose = (): void => {
        stop();
        reject(callerGone);
      };
      http2.on("data", onData);
      http2.on("end", onEnd);
      http2.on("close", onClose);
    });
  }

  protected override begin(): void {
    if (!this.response.headersSent) {
      const head = { ":status": 200, "content-type": this.contentType, ...this.#extra };
      this.response.respond(head, { waitForTrailers: true });
    }
  }

  protected override addTrailers(trailers: Readonly<Record<string, string>>): void {
    const http2 = this.response;
    http2.once("wantTrailers", () => {
      http2.sendTrailers(trailers);
      if (!http2.readableEnded) {
        // The end of the response ends the call, even if the client never ends its request.
        const timer = setTimeout(() => http2.close(), goodbyeMs).unref();
        http2.once("close", () => clearTimeout(timer));
      }
    });
  }
}

function callValues(peer: Peer): ContextValues {
  const values = createContextValues();
  setPeer(values, peer);
  return values;
}

/** The error of a call whose caller is gone. All calls share it, because each new error costs a stack trace. */
const callerGone = new DmEnvRpcError("CANCELLED", "the caller ended the call", {
  origin: "client",
});

/** The body of a request that has one message. */
class RequestBody {
  readonly #most: number;
  readonly #chunks: Uint8Array[] = [];
  #length = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** @throws DmEnvRpcError RESOURCE_EXHAUSTED if the announced message or the body is too large. */
  add(chunk: Uint8Array): void {
    const hadPrefix = this.#length >= prefixBytes;
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    const announced = hadPrefix || this.#length < prefixBytes ? 0 : sizeOf(this.#bytes());
    const size = Math.max(announced, this.#length - prefixBytes);
    if (size > this.#most) {
      throw new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `request too large: expected at most ${this.#most} bytes, received ${size} or more`,
      );
    }
  }

  /** @throws DmEnvRpcError INVALID_ARGUMENT if the body is not exactly one uncompressed message. */
  message(): Uint8Array {
    const bytes = this.#bytes();
    const isWhole = bytes.length >= prefixBytes && bytes.length === prefixBytes + sizeOf(bytes);
    if (!isWhole || bytes[0] !== 0) {
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `request malformed: expected one message with its length in front, received ${bytes.length} bytes`,
      );
    }
    return bytes.subarray(prefixBytes);
  }

  #bytes(): Uint8Array {
    const [first] = this.#chunks;
    return first !== undefined && this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks);
  }
}

/** Returns the size of a message that its prefix announces. */
function sizeOf(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(1);
}
