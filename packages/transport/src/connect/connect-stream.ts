// SPDX-License-Identifier: Apache-2.0
import {
  ConnectError,
  type ContextKey,
  type ContextValues,
  createContextKey,
  type HandlerContext,
} from "@connectrpc/connect";
import {
  type EnvironmentRequest,
  EnvironmentRequestSchema,
  type EnvironmentResponse,
  EnvironmentResponseSchema,
} from "@dm-env-rpc/protocol";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { fromConnectError } from "../internal/connect-errors.ts";
import type { CallCodecs } from "../stream/call-codecs.ts";
import type { Peer, ServerStream } from "../stream/message-stream.ts";
import { fromGenerated, toGenerated } from "./generated-messages.ts";
import { IterableStream } from "./iterable-stream.ts";
import { tooLargeForConnect } from "./too-large.ts";

const nobody: Peer = { address: "unknown", metadata: new Map(), certificate: undefined };

/** Where a handler finds who calls. */
const peerKey: ContextKey<Peer> = createContextKey<Peer>(nobody, {
  description: "the peer of the call",
});

/** Tells the handlers of a request who calls. */
export function setPeer(values: ContextValues, peer: Peer): void {
  values.set(peerKey, peer);
}

/** Who makes a call of a route, by the context values of its handler or its interceptors. */
export function peerOfCall(values: ContextValues): Peer {
  return values.get(peerKey);
}

/** What a call over Connect's protocols becomes. */
export interface ConnectCallOptions {
  readonly codecs: CallCodecs;
  readonly onStream: (stream: ServerStream) => void;
  /** Most bytes of a request. */
  readonly maxRequestBytes: number;
  /** Name of the limit that sets `maxRequestBytes`. */
  readonly requestLimit: string;
  /** Counts a stream as open until what it returns is called. */
  readonly count: () => () => void;
}

/** The handler of Process for Connect's router. */
export type ProcessHandler = (
  requests: AsyncIterable<EnvironmentRequest>,
  context: HandlerContext,
) => AsyncIterable<EnvironmentResponse>;

/**
 * Makes the handler of Process for the Connect and gRPC-Web protocols: each call becomes a
 * ServerStream, as a gRPC call does.
 *
 * Connect's iterator of requests ends the same way for a half-close and for a reset. What
 * tells them apart is the call's signal, which a reset aborts; so the end is believed one
 * turn of the event loop later.
 */
export function createProcessHandler({
  codecs,
  onStream,
  maxRequestBytes,
  requestLimit,
  count,
}: ConnectCallOptions): ProcessHandler {
  return (requests, context) => {
    const { signal } = context;
    const stream = new IterableStream<
      ProcessRequest,
      ProcessResponse,
      EnvironmentRequest,
      EnvironmentResponse
    >(() => requests, {
      decode: (message) => fromGenerated(codecs.request, EnvironmentRequestSchema, message),
      encode: (message) => toGenerated(codecs.response, EnvironmentResponseSchema, message),
      onIncomingEnd: async () => {
        await new Promise((resolve) => setImmediate(resolve));
        return "half-close"; // After an abort the stream is done, and nobody hears of it.
      },
      errorOf: (error) => fromConnectError(error, "connection"),
      tooLargeOf: (error) => tooLargeForConnect(error, "server", maxRequestBytes, requestLimit),
      onDone: count(), // Connect tells the peer: the outgoing iterable ends, or throws.
      endsCall: true,
    });
    // Fires for a good end, too, when the stream is done already.
    const onAbort = (): void => stream.finish(abortOf(signal));
    if (signal.aborted) {
      onAbort();
    } else {
      signal.addEventListener("abort", onAbort, { once: true });
    }
    onStream(Object.assign(stream, { peer: peerOfCall(context.values) }));
    return stream.outgoing();
  };
}

function abortOf(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof ConnectError
    ? fromConnectError(reason, "connection")
    : new DmEnvRpcError("CANCELLED", "the client reset the stream", {
        origin: "client",
        cause: reason,
      });
}
