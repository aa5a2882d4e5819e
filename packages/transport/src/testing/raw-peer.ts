// SPDX-License-Identifier: Apache-2.0
import { connect, type Socket } from "node:net";
import {
  emptySettings,
  frameFlags,
  frameTypes,
  headersOfCall,
  http2Frame,
  preface,
} from "@dm-env-rpc/tests-processes";
import { processPath } from "../stream/process-path.ts";

/** The preface, settings, and the headers of a gRPC call of Process on stream 1. */
export const startOfCall: Buffer = Buffer.concat([
  preface,
  emptySettings,
  http2Frame(frameTypes.headers, frameFlags.endHeaders, 1, headersOfCall(processPath)),
]);

/** A peer over plain TCP that sends the given bytes and answers nothing. */
export interface RawPeer extends AsyncDisposable {
  readonly socket: Socket;
  /** Writes all parts at once. */
  write(...parts: readonly Uint8Array[]): void;
}

/** Connects to a port of this machine. */
export function rawPeer(port: number): RawPeer {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {});
  socket.resume();
  return {
    socket,
    write: (...parts) => void socket.write(Buffer.concat(parts)),
    async [Symbol.asyncDispose]() {
      socket.destroy();
    },
  };
}
