// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Address } from "../stream/address.ts";
import type { ClientStream } from "../stream/message-stream.ts";

/** A stream to a server, with its connection. */
export interface OpenedStream extends ClientStream, AsyncDisposable {
  /** `host:port` of the server, or `unix:/path`. */
  readonly address: string;
  /**
   * Closes the connection; a stream that is still open is aborted. Idempotent. Resolves when the
   * socket is closed. After its stream has closed, a connection closes by itself.
   */
  close(): Promise<void>;
}

/**
 * Ties a client's stream to its connection.
 *
 * @param disconnect Closes the connection of an aborted stream; resolves when its socket is closed.
 */
export function openedStream(
  stream: ClientStream,
  address: Address,
  disconnect: () => Promise<void>,
): OpenedStream {
  const close = async (): Promise<void> => {
    stream.abort(
      new DmEnvRpcError("CANCELLED", "the stream was closed on this side", { origin: "client" }),
    );
    await disconnect();
  };
  return {
    address: address.authority,
    start: (receiver) => stream.start(receiver),
    send: (message) => stream.send(message),
    pause: () => stream.pause(),
    resume: () => stream.resume(),
    recycle: () => stream.recycle?.(),
    end: () => stream.end(),
    abort: (error) => stream.abort(error),
    close,
    [Symbol.asyncDispose]: close,
  };
}
