// SPDX-License-Identifier: Apache-2.0
import { later } from "../internal/turns/later.ts";
import { encoded, type Socket, type SocketEvents } from "./websocket-stream.ts";

/** Interval of the polls of the number of buffered bytes. The platform emits no event when the number falls. */
const drainPollMs = 4;

/**
 * Wraps the platform's WebSocket. The platform cannot pause reading, so a page's buffers are bounded only by
 * the requests that the page has in flight.
 *
 * @param webSocket An open WebSocket of which no message has been read yet.
 */
export function webSocket(webSocket: WebSocket): Socket {
  webSocket.binaryType = "arraybuffer";
  let events: SocketEvents | undefined;
  let drainTimer: ReturnType<typeof setTimeout> | undefined;
  const watchDrain = (): void => {
    if (webSocket.bufferedAmount === 0) {
      return;
    }
    drainTimer ??= setTimeout(() => {
      drainTimer = undefined;
      events?.onDrain();
      watchDrain();
    }, drainPollMs);
  };

  const sendBinary = (bytes: Uint8Array<ArrayBuffer>): void => {
    webSocket.send(bytes);
    watchDrain();
  };

  return {
    get bufferedBytes() {
      return webSocket.bufferedAmount;
    },
    partialBytes: 0, // The platform reports complete messages only.
    start(started) {
      events = started;
      webSocket.onmessage = ({ data }: { readonly data: ArrayBuffer | string }) => {
        if (typeof data === "string") {
          started.onText(data);
        } else {
          started.onBinary(new Uint8Array(data), 0, data.byteLength);
        }
      };
      webSocket.onclose = ({ code, reason }) => {
        clearTimeout(drainTimer);
        started.onClose(code, reason);
      };
    },
    sendBinary,
    sendMessage: (message, encoder) => sendBinary(encoded(message, encoder)),
    sendText: (text) => webSocket.send(text),
    pause() {},
    resume() {},
    close: (code, reason) => webSocket.close(code, reason),
    terminateSoon() {},
    later,
  };
}
