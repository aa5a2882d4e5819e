// SPDX-License-Identifier: Apache-2.0
import { connect, type Socket } from "node:net";
import {
  emptySettings,
  frameFlags,
  frameTypes,
  headersOfCall,
  http2Frame,
  preface,
} from "./http2-frames.ts";
import { grpcFrame } from "./protobuf-fields.ts";

const { headers, data, goAway, continuation } = frameTypes;

/** A gRPC call over plain TCP that can end so that node:http2 forgets its connection (docs/decisions/0014). */
export interface Ghost {
  /** Resolves once the server has closed the connection, or reset it. */
  readonly closed: Promise<void>;
  /** Sends a GOAWAY, for which node:http2 waits for the call, and a CONTINUATION, after which it reads nothing. */
  vanish(): void;
}

/** Calls a method with one message, and resolves once the server has sent something. */
export async function callGhost(
  address: string,
  path: string,
  message: Uint8Array,
): Promise<Ghost> {
  const { hostname, port } = new URL(address);
  // Half-open, so that its close is the server's.
  const socket: Socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  socket.on("error", () => {});
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.write(
    Buffer.concat([
      preface,
      emptySettings,
      http2Frame(headers, frameFlags.endHeaders, 3, headersOfCall(path)),
      http2Frame(data, 0, 3, grpcFrame(message)),
    ]),
  );
  await new Promise((resolve) => socket.once("data", resolve));
  return {
    closed,
    vanish: () =>
      void socket.end(
        Buffer.concat([
          http2Frame(goAway, 0, 0, Buffer.of(0, 0, 0, 6, 0, 0, 0, 0)),
          http2Frame(continuation, frameFlags.endHeaders, 1, Buffer.of(0x83)),
        ]),
      ),
  };
}
