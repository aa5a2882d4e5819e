// SPDX-License-Identifier: Apache-2.0

import { unpackStatus } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import type { Peer } from "@dm-env-rpc/transport";
import {
  clientOf,
  isTracing,
  noSpan,
  type SpanAttributes,
  type TraceSpan,
  tracerOf,
} from "@dm-env-rpc/transport/internal/tracing";

const startSpan = tracerOf("@dm-env-rpc/server");

/** Requests that have a span. Steps have none: a span for each would cost more than the step. */
export type TracedRequest = Extract<
  ProcessRequest,
  { case: "createWorld" | "joinWorld" | "resetWorld" | "destroyWorld" }
>;

const methods: Readonly<Record<TracedRequest["case"], string>> = {
  createWorld: "CreateWorld",
  joinWorld: "JoinWorld",
  resetWorld: "ResetWorld",
  destroyWorld: "DestroyWorld",
};

const worldName = "dm_env_rpc.world.name";

/**
 * The spans of a stream: one for the stream, and one for each request about a world. All continue
 * the trace of the stream's metadata.
 */
export class StreamSpans {
  readonly #peer: Peer;
  readonly #stream: TraceSpan;
  #request: TraceSpan | undefined;

  constructor(peer: Peer) {
    this.#peer = peer;
    this.#stream = this.#start("Process", {});
  }

  /** Starts the span of a request, which ends with `answered` or the stream. */
  request(request: TracedRequest): void {
    const attributes =
      request.case === "createWorld" ? {} : { [worldName]: request.value.worldName };
    this.#request = this.#start(methods[request.case], attributes);
  }

  /** Links the current request's span. */
  link(traceparent: string | undefined): void {
    this.#request?.link(traceparent);
  }

  /** Ends the span of the current request. */
  answered(response: ProcessResponse): void {
    const span = this.#request;
    this.#request = undefined;
    if (span?.isRecording !== true) {
      return; // A flood has thousands of errors, and each new error costs a stack trace.
    }
    const error = response.case === "error" ? unpackStatus(response.value) : undefined;
    const created =
      response.case === "createWorld" ? { [worldName]: response.value.worldName } : undefined;
    span.end(error, created);
  }

  /** Ends all spans. */
  end(error: Error | undefined): void {
    this.#request?.end(error);
    this.#stream.end(error);
  }

  #start(method: string, attributes: SpanAttributes): TraceSpan {
    if (!isTracing()) {
      return noSpan;
    }
    const { address, metadata } = this.#peer;
    const name = `dm_env_rpc.v1.Environment/${method}`;
    return startSpan(name, {
      kind: "server",
      parent: metadata,
      attributes: {
        "rpc.system.name": "dm_env_rpc",
        "rpc.method": name,
        ...clientOf(address),
        ...attributes,
      },
    });
  }
}
