// SPDX-License-Identifier: Apache-2.0
import type { Duplex } from "node:stream";
import { WebSocket } from "ws";
import { goodbyeMs } from "../limits/limits.ts";
import { messageTooBig } from "./protocol.ts";
import type { Socket, SocketEvents } from "./websocket-stream.ts";

/** Options of the library `ws` that both sides share. */
export const wsOptions = {
  // Observations are mostly pixels and floats; compressing each costs far more than it saves.
  perMessageDeflate: false,
  // The text messages are ours to check.
  skipUTF8Validation: false,
} as const;

/**
 * A WebSocket of the library that leaves it to the stream how to end after a message above `maxPayload`, so that
 * earlier requests are answered first. The library reads no message after it, and drops what arrives.
 */
export class PatientWebSocket extends WebSocket {
  override close(code?: number, reason?: string | Buffer): void {
    if (code !== messageTooBig) {
      super.close(code, reason);
    }
  }
}

/** Returns true for the library's error of a message above `maxPayload`. */
export function isTooLarge(error: Error): boolean {
  return "code" in error && error.code === "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH";
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
      const onData = (chunk: Buffer): void => {
        const grown = Math.max(0, partialBytes + chunk.length - controlBytes);
        partialBytes = messages === seen ? grown : 0;
        seen = messages;
        controlBytes = 0;
        started.onPartial();
      };
      network.on("data", onData);
      webSocket.on("error", (error) => {
        // Any other error is followed by "close", with the code.
        if (isTooLarge(error)) {
          network.off("data", onData);
          partialBytes = 0;
          started.onTooLarge();
        }
      });
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
