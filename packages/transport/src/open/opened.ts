// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ClientStream } from "../stream/message-stream.ts";
import type { OpenedStream } from "./opened-stream.ts";

/**
 * Adds the life of its WebSocket to a client's stream.
 *
 * @param closed Resolves when the WebSocket is closed.
 */
export function opened(stream: ClientStream, address: string, closed: Promise<void>): OpenedStream {
  const close = async (): Promise<void> => {
    stream.abort(
      new DmEnvRpcError("CANCELLED", "the stream was closed on this side", { origin: "client" }),
    );
    await closed;
  };
  return {
    address,
    start: (receiver) => stream.start(receiver),
    send: (message) => stream.send(message),
    pause: () => stream.pause(),
    resume: () => stream.resume(),
    end: () => stream.end(),
    abort: (error) => stream.abort(error),
    close,
    [Symbol.asyncDispose]: close,
  };
}
