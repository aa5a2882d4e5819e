// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from "node:http2";
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  EnvironmentRequestSchema,
  type EnvironmentResponse,
  EnvironmentResponseSchema,
} from "@dm-env-rpc/protocol";
import { grpcFrame } from "@dm-env-rpc/tests-processes";

/** The payload of a request. */
export type Payload = MessageInitShape<typeof EnvironmentRequestSchema>["payload"];

/** Makes a gRPC frame of a request or of raw bytes. */
export function frame(request: Payload | Uint8Array): Buffer {
  const body =
    request instanceof Uint8Array
      ? request
      : toBinary(
          EnvironmentRequestSchema,
          create(EnvironmentRequestSchema, request === undefined ? {} : { payload: request }),
        );
  return grpcFrame(body);
}

/** An HTTP/2 connection for invalid calls. */
export class RawConnection implements AsyncDisposable {
  readonly session: ClientHttp2Session;

  constructor(address: string) {
    // By default node:http2 resets streams once 10 MB are queued.
    this.session = connect(`http://${address}`, { maxSessionMemory: 4096 });
    this.session.on("error", () => {});
  }

  /** Calls Process, or another path. */
  call(path = "/dm_env_rpc.v1.Environment/Process", headers: OutgoingHttpHeaders = {}): RawCall {
    return new RawCall(
      this.session.request({
        ":method": "POST",
        ":path": path,
        "content-type": "application/grpc",
        te: "trailers",
        ...headers,
      }),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.session.destroyed) {
      return;
    }
    const closed = once(this.session, "close");
    this.session.destroy();
    await closed;
  }
}

/** One call, whose responses are read on demand. */
export class RawCall {
  readonly http2: ClientHttp2Stream;
  /** The headers or trailers with the call's status; undefined if none arrived. */
  readonly status: Promise<IncomingHttpHeaders | undefined>;
  #received = Buffer.alloc(0);

  constructor(http2: ClientHttp2Stream) {
    this.http2 = http2;
    http2.on("error", () => {});
    this.status = new Promise((resolve) => {
      for (const event of ["response", "trailers"] as const) {
        http2.on(event, (headers: IncomingHttpHeaders) => {
          if (headers["grpc-status"] !== undefined) {
            resolve(headers);
          }
        });
      }
      http2.once("close", () => resolve(undefined));
    });
  }

  /** Sends a request and reads its response. */
  async ask(request: Payload | Uint8Array): Promise<EnvironmentResponse["payload"]> {
    this.http2.write(frame(request));
    return await this.answer();
  }

  /** Reads the next response. */
  async answer(): Promise<EnvironmentResponse["payload"]> {
    for (;;) {
      if (this.#received.length >= 5) {
        const length = this.#received.readUInt32BE(1);
        if (this.#received.length >= 5 + length) {
          const body = this.#received.subarray(5, 5 + length);
          this.#received = this.#received.subarray(5 + length);
          return fromBinary(EnvironmentResponseSchema, body).payload;
        }
      }
      const chunk: Buffer | null = this.http2.read();
      if (chunk !== null) {
        this.#received = Buffer.concat([this.#received, chunk]);
      } else if (this.http2.readableEnded || this.http2.destroyed) {
        throw new Error("the call is over");
      } else {
        await this.#change();
      }
    }
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      const changed = (): void => {
        this.http2.off("readable", changed).off("close", changed);
        resolve();
      };
      this.http2.on("readable", changed).on("close", changed);
    });
  }
}
