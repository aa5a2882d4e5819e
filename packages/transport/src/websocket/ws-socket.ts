// SPDX-License-Identifier: Apache-2.0
import type { Duplex } from "node:stream";
import type { WebSocket } from "ws";
import { goodbyeMs } from "../limits/limits.ts";
import type { Socket, SocketEvents } from "./websocket-stream.ts";

/** Options of the library `ws` that both sides share. */
export const wsOptions = {
  // Observations are mostly pixels and floats; compressing each costs far more than it saves.
  perMessageDeflate: false,
  // The text messages are ours to check.
  skipUTF8Validation: false,
} as const;

/**
 * Most bytes of a message that the library reads before it closes the connection itself, with code 1009 and no
 * word of the limit. Messages a little above `maxMessageBytes` are read whole, and refused with an error that names it.
 */
export function maxPayloadFor(maxMessageBytes: number): number {
  return maxMessageBytes + 64 * 1024;
}

/** Cuts a WebSocket that is being closed because of an error, should its peer not answer the close. */
export function terminateSoon(webSocket: WebSocket): void {
  const timer = setTimeout(() => webSocket.terminate(), goodbyeMs).unref();
  webSocket.once("close", () => clearTimeout(timer));
}

/**
 * A WebSocket of the library `ws`.
 *
 * @param webSocket An open one: its messages are not read yet.
 * @param network The connection below it.
 */
export function wsSocket(webSocket: WebSocket, network: Duplex): Socket {
  webSocket.binaryType = "nodebuffer";
  let partialBytes = 0;
  let messages = 0;
  let isCorked = false;
  /** Puts the frames of one turn into one write. */
  const cork = (): void => {
    if (isCorked) {
      return;
    }
    isCorked = true;
    network.cork();
    process.nextTick(uncork);
  };
  const uncork = (): void => {
    isCorked = false;
    network.uncork();
  };
  let events: SocketEvents | undefined;
  const onSent = (): void => events?.onDrain();

  return {
    get bufferedBytes() {
      return webSocket.bufferedAmount;
    },
    get partialBytes() {
      return partialBytes;
    },
    start(started) {
      events = started;
      webSocket.on("message", (data: Buffer, isBinary: boolean) => {
        messages += 1;
        if (isBinary) {
          started.onBinary(data);
        } else {
          started.onText(data.toString());
        }
      });
      let seen = 0;
      let controlBytes = 0;
      // A frame of a client has a header of 2 bytes and a mask of 4; pings and pongs are no part of a message.
      const onControl = (data: Buffer): void => {
        controlBytes += data.length + 6;
      };
      webSocket.on("ping", onControl);
      webSocket.on("pong", onControl);
      // This listener runs after the library's own, so `messages` counts those that this chunk completed.
      network.on("data", (chunk: Buffer) => {
        const grown = Math.max(0, partialBytes + chunk.length - controlBytes);
        partialBytes = messages === seen ? grown : 0;
        seen = messages;
        controlBytes = 0;
        started.onPartial();
      });
      webSocket.on("error", () => {}); // Its "close" follows, with the code.
      webSocket.on("close", (code: number, reason: Buffer) => {
        partialBytes = 0;
        started.onClose(code, reason.toString());
      });
    },
    sendBinary(bytes) {
      cork();
      webSocket.send(bytes, { binary: true }, onSent);
    },
    sendText(text) {
      cork();
      webSocket.send(text, { binary: false }, onSent);
    },
    pause: () => webSocket.pause(),
    resume: () => webSocket.resume(),
    close: (code, reason) => webSocket.close(code, reason),
    terminateSoon: () => terminateSoon(webSocket),
    later: (task) => void setImmediate(task),
  };
}
