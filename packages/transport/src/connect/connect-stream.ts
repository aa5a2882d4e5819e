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
import { type BufferedBytes, connectionBytes } from "../limits/buffered-bytes.ts";
import { highWaterBytes, lowWaterBytes } from "../limits/limits.ts";
import type { CallCodecs } from "../stream/call-codecs.ts";
import { fromGenerated, toGenerated } from "../stream/generated-messages.ts";
import type { Peer, ServerStream } from "../stream/message-stream.ts";
import { IterableStream } from "./iterable-stream.ts";
import { tooLargeForConnect } from "./too-large.ts";

const unknownPeer: Peer = { address: "unknown", metadata: new Map(), certificate: undefined };

/** Context key of the peer that makes a call. */
const peerKey: ContextKey<Peer> = createContextKey<Peer>(unknownPeer, {
  description: "the peer of the call",
});

/** Sets the peer that `peerOfCall` returns to the handlers of a request. */
export function setPeer(values: ContextValues, peer: Peer): void {
  values.set(peerKey, peer);
}

/**
 * Returns the peer that makes a call of a route, from the context values of its handler or
 * interceptors.
 */
export function peerOfCall(values: ContextValues): Peer {
  return values.get(peerKey);
}

/** Options of `createProcessHandler`. */
export interface ConnectCallOptions {
  readonly codecs: CallCodecs;
  readonly onStream: (stream: ServerStream) => void;
  /** Size limit of a request, in bytes. */
  readonly maxRequestBytes: number;
  /** Name of the limit that sets `maxRequestBytes`. */
  readonly requestLimit: string;
  /**
   * Counts a stream as open.
   *
   * @returns A function to call when the stream has closed.
   */
  readonly count: () => () => void;
  readonly buffered: BufferedBytes;
}

/** The handler of Process for Connect's router. */
export type ProcessHandler = (
  requests: AsyncIterable<EnvironmentRequest>,
  context: HandlerContext,
) => AsyncIterable<EnvironmentResponse>;

/**
 * Creates the handler of Process for Connect's library, which answers calls by Connect and gRPC-Web over HTTP/1.1:
 * each call becomes a ServerStream, as a gRPC call does.
 *
 * Connect's iterator of requests ends the same way for a half-close and for a reset. Only the
 * call's signal distinguishes the two, because a reset aborts it. So when the iterator has ended, the handler waits for
 * one turn of the event loop, in which a reset aborts the signal.
 */
export function createProcessHandler({
  codecs,
  onStream,
  maxRequestBytes,
  requestLimit,
  count,
  buffered,
}: ConnectCallOptions): ProcessHandler {
  return (requests, context) => {
    const { signal } = context;
    const peer = peerOfCall(context.values);
    const uncount = count();
    const stream = new IterableStream<
      ProcessRequest,
      ProcessResponse,
      EnvironmentRequest,
      EnvironmentResponse
    >(() => requests, {
      decode: (message) => fromGenerated(codecs.request, EnvironmentRequestSchema, message),
      encode: (message) =>
        toGenerated(codecs.response, EnvironmentResponseSchema, message, codecs.checkResponse),
      onIncomingEnd: async () => {
        await new Promise((resolve) => setImmediate(resolve));
        return "half-close"; // After an abort, the stream is done already, so the value has no effect.
      },
      errorOf: (error) => fromConnectError(error, "connection"),
      tooLargeOf: (error) => tooLargeForConnect(error, "server", maxRequestBytes, requestLimit),
      highWaterBytes: () => (account.isTight ? lowWaterBytes : highWaterBytes),
      onDone: () => {
        uncount();
        account.close();
      },
      // The outgoing iterable reports the end to the peer: it ends or throws.
      endsCall: true,
    });
    const account = buffered.open(connectionBytes(peer.address), {
      isWaitingForPeer: false,
      get unreportedBytes() {
        return stream.waitingBytes;
      },
      fail: (error) => stream.finish(error),
    });
    // The signal also aborts after a normal end, when the stream is done already.
    const onAbort = (): void => stream.finish(abortOf(signal));
    if (signal.aborted) {
      onAbort();
    } else {
      signal.addEventListener("abort", onAbort, { once: true });
    }
    onStream(Object.assign(stream, { peer }));
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
