// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import type { Target } from "../attacks/attack.ts";
import { openSocket } from "./peer.ts";

/** Opcodes of WebSocket frames (RFC 6455, section 5.2). */
export const webSocketOpcodes = { continuation: 0, text: 1, binary: 2, ping: 9 } as const;

/** Creates a WebSocket frame, by default masked and the last of its message. */
export function webSocketFrame(
  opcode: number,
  payload: Uint8Array,
  { isMasked = true, isLast = true }: { isMasked?: boolean; isLast?: boolean } = {},
): Buffer {
  const mask = isMasked ? 0x80 : 0;
  const head = [(isLast ? 0x80 : 0) | opcode];
  if (payload.length < 126) {
    head.push(mask | payload.length);
  } else if (payload.length < 65_536) {
    head.push(mask | 126, payload.length >> 8, payload.length & 0xff);
  } else {
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(payload.length));
    head.push(mask | 127, ...length);
  }
  if (!isMasked) {
    return Buffer.concat([Buffer.from(head), payload]);
  }
  const key = randomBytes(4);
  const masked = payload.map((byte, i) => byte ^ (key[i % 4] ?? 0));
  return Buffer.concat([Buffer.from(head), key, masked]);
}

/** A WebSocket over plain TCP that sends any bytes and drops what arrives. */
export interface WebSocketPeer {
  readonly isOpen: boolean;
  /** Writes bytes and waits until they fit into the socket's buffer. */
  write(bytes: Uint8Array): Promise<void>;
  /** Writes the bytes again and again, until the attack ends or the connection closes. */
  pour(bytes: Uint8Array): Promise<void>;
  /** Waits for the next bytes that arrive; false if the connection or the attack ends before. */
  answer(): Promise<boolean>;
  /** Waits until the server closes the connection, or the attack ends. */
  ended(): Promise<void>;
  /** Stops reading what arrives. */
  pause(): void;
  destroy(): void;
}

/** Connects to a path; undefined if the server refuses. */
export async function openWebSocket(
  target: Target,
  path: string,
): Promise<WebSocketPeer | undefined> {
  const socket = await openSocket(target);
  if (socket === undefined) {
    return undefined;
  }
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  const end = Promise.race([closed, target.over]);
  socket.write(
    [
      `GET ${path} HTTP/1.1`,
      "host: localhost",
      "connection: upgrade",
      "upgrade: websocket",
      "sec-websocket-version: 13",
      `sec-websocket-key: ${randomBytes(16).toString("base64")}`,
      "sec-websocket-protocol: dm_env_rpc.v1",
      "\r\n",
    ].join("\r\n"),
  );
  const first = new Promise<Buffer>((resolve) => socket.once("data", resolve));
  const answer = await Promise.race([first, end]);
  if (answer === undefined || !answer.toString("latin1").startsWith("HTTP/1.1 101 ")) {
    target.seen.count("refused upgrade");
    socket.destroy();
    return undefined;
  }
  socket.on("data", (chunk) => {
    target.seen.receivedBytes += chunk.length;
  });
  void closed.then(() => target.seen.count("closed"));
  const peer: WebSocketPeer = {
    get isOpen() {
      return !socket.destroyed && !target.isOver();
    },
    async write(bytes) {
      if (!peer.isOpen) {
        return;
      }
      target.seen.sentBytes += bytes.length;
      await (socket.write(bytes)
        ? new Promise((resolve) => setImmediate(resolve))
        : Promise.race([new Promise((resolve) => socket.once("drain", resolve)), end]));
    },
    async pour(bytes) {
      while (peer.isOpen) {
        await peer.write(bytes);
      }
    },
    answer: () =>
      Promise.race([
        new Promise<true>((resolve) => socket.once("data", () => resolve(true))),
        end.then(() => false),
      ]),
    ended: () => end,
    pause: () => void socket.pause(),
    destroy: () => void socket.destroy(),
  };
  return peer;
}
