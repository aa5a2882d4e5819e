// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { StatusSchema } from "@dm-env-rpc/protocol/status";
import type { Malformed, ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec";
import type { ServerStream, StreamReceiver } from "@dm-env-rpc/transport";

/** What a fault may do to a stream. */
export interface Wires {
  /** Passes a request on to the session. */
  deliver(request: ProcessRequest | Malformed): void;
  /** Sends a response to the client. */
  answer(response: ProcessResponse): void;
  /** Ends the stream. */
  end(): void;
}

/** A mistake in how a session treats its stream. What it leaves out goes on as it came. */
export interface Fault {
  onRequest?(request: ProcessRequest | Malformed, wires: Wires): void;
  onResponse?(response: ProcessResponse, wires: Wires): void;
  onEnd?(wires: Wires): boolean;
}

/** Puts a fault between a client and its session, as if the session had it. */
export function withFault(stream: ServerStream, fault: Fault): ServerStream {
  let receiver: StreamReceiver<ProcessRequest> | undefined;
  const wires: Wires = {
    deliver: (request) => receiver?.onMessage(request),
    answer: (response) => {
      stream.send(response);
    },
    end: () => stream.end(),
  };
  return {
    peer: stream.peer,
    start(session) {
      receiver = session;
      stream.start({
        onMessage: (request) => {
          if (fault.onRequest === undefined) session.onMessage(request);
          else fault.onRequest(request, wires);
        },
        onEnd: () => {
          if (fault.onEnd?.(wires) !== true) session.onEnd();
        },
        onDrain: () => session.onDrain(),
        onClose: (error) => session.onClose(error),
      });
    },
    send(response) {
      if (fault.onResponse === undefined) return stream.send(response);
      fault.onResponse(response, wires);
      return true;
    },
    pause: () => stream.pause(),
    resume: () => stream.resume(),
    end: () => stream.end(),
    abort: (error) => stream.abort(error),
  };
}

/** An error Status. */
export function errorOf(message: string): ProcessResponse {
  return { case: "error", value: create(StatusSchema, { code: 3, message }) };
}
