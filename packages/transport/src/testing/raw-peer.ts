// SPDX-License-Identifier: Apache-2.0
import { connect, type Socket } from "node:net";
import { processPath } from "../stream/process-path.ts";

/** First bytes of every HTTP/2 client. */
export const preface: Buffer = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** A SETTINGS frame that changes nothing. */
export const emptySettings: Buffer = Buffer.from("000000040000000000", "hex");

/** Creates an HTTP/2 frame. */
export function http2Frame(type: number, flags: number, payload: Uint8Array, stream = 1): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.set([type, flags], 3);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** The preface, settings, and the headers of a gRPC call of Process on stream 1. */
export const startOfCall: Buffer = Buffer.concat([
  preface,
  emptySettings,
  http2Frame(
    1,
    4, // END_HEADERS
    Buffer.concat([
      Buffer.of(0x83, 0x86), // :method POST, :scheme http
      literal(":path", processPath),
      literal(":authority", "localhost"),
      literal("content-type", "application/grpc"),
    ]),
  ),
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

/** Encodes an HPACK header that is in no table. */
function literal(name: string, value: string): Buffer {
  return Buffer.concat([
    Buffer.of(0, name.length),
    Buffer.from(name),
    Buffer.of(value.length),
    Buffer.from(value),
  ]);
}
