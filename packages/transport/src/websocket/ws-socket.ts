// SPDX-License-Identifier: Apache-2.0
import type { Duplex } from "node:stream";
import { WebSocket } from "ws";
import { later } from "../internal/later.ts";
import { goodbyeMs } from "../limits/limits.ts";
import { BinaryFrames } from "./binary-frames.ts";
import { messageTooBig } from "./protocol.ts";
import type { Socket, SocketEvents } from "./websocket-stream.ts";

/**
 * Messages that are sent before they are written. With many requests in flight, the peer then works on the first
 * answers while this side works on the remaining requests.
 */
const messagesPerWrite = 32;

/** Options of the library `ws` for both sides. */
export const wsOptions = {
  // Observations are mostly pixels and floats; compressing them costs far more than it saves.
  perMessageDeflate: false,
  // The stream validates text messages itself.
  skipUTF8Validation: false,
} as const;

/**
 * A WebSocket of `ws` that lets the stream decide how to end after a message above `maxPayload`, so
 * that earlier requests are answered first. `ws` drops later messages.
 */
export class PatientWebSocket extends WebSocket {
  /** Writes what is sent before a close, which may answer the peer's. */
  flush: () => void = () => {};

  override close(code?: number, reason?: string | Buffer): void {
    if (code !== messageTooBig) {
      this.flush();
      super.close(code, reason);
    }
  }
}

/** Returns true for the error of `ws` about a message above `maxPayload`. */
export function isTooLarge(error: Error): boolean {
  return "code" in error && error.code === "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH";
}

/** Cuts a WebSocket that is closing after an error if its peer does not answer the close. */
export function terminateSoon(webSocket: WebSocket): void {
  const timer = setTimeout(() => webSocket.terminate(), goodbyeMs).unref();
  webSocket.once("close", () => clearTimeout(timer));
}

/**
 * Wraps a WebSocket of the library `ws`.
 *
 * @param webSocket An open WebSocket whose messages were not read yet.
 * @param network Its network connection.
 * @param side The side that sends.
 */
export function wsSocket(
  webSocket: PatientWebSocket,
  network: Duplex,
  side: "client" | "server",
): Socket {
  webSocket.binaryType = "nodebuffer";
  let partialBytes = 0;
  let messages = 0;
  const frames = new BinaryFrames(side === "client");
  let isFlushScheduled = false;
  const flush = (): void => {
    const isOpen = webSocket.readyState === WebSocket.OPEN;
    if (frames.count === 0 || !isOpen) {
      frames.clear();
      return;
    }
    const pieces = frames.take();
    const last = pieces.length - 1;
    network.cork();
    for (const [index, piece] of pieces.entries()) {
      network.write(piece, index === last ? onSent : undefined);
    }
    network.uncork();
  };
  webSocket.flush = flush;
  const flushLater = (): void => {
    isFlushScheduled = false;
    flush();
  };
  let events: SocketEvents | undefined;
  const onSent = (): void => events?.onDrain();

  return {
    get bufferedBytes() {
      return webSocket.bufferedAmount + frames.bytes;
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
      // A client's frame has a header of 2 bytes and a mask of 4; pings and pongs do not belong to
      // a message.
      const onControl = (data: Buffer): void => {
        controlBytes += data.length + 6;
      };
      webSocket.on("ping", onControl);
      webSocket.on("pong", onControl);
      // Runs after the library's own listener, so `messages` counts those that this chunk
      // completed.
      const onData = (chunk: Buffer): void => {
        const grown = Math.max(0, partialBytes + chunk.length - controlBytes);
        partialBytes = messages === seen ? grown : 0;
        seen = messages;
        controlBytes = 0;
        started.onPartial();
      };
      network.on("data", onData);
      webSocket.on("error", (error) => {
        // After any other error `ws` emits "close" with the code.
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
      frames.add(bytes);
      if (frames.count === messagesPerWrite) {
        flush();
      } else if (!isFlushScheduled) {
        isFlushScheduled = true;
        process.nextTick(flushLater);
      }
    },
    sendText(text) {
      flush();
      webSocket.send(text, { binary: false }, onSent);
    },
    pause: () => webSocket.pause(),
    resume: () => webSocket.resume(),
    close: (code, reason) => webSocket.close(code, reason),
    terminateSoon: () => terminateSoon(webSocket),
    later,
  };
}
