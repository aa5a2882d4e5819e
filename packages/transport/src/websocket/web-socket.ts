// SPDX-License-Identifier: Apache-2.0
import { later } from "../internal/later.ts";
import type { Socket, SocketEvents } from "./websocket-stream.ts";

/** Interval at which buffered bytes are polled: the platform has no event for them. */
const drainPollMs = 4;

/**
 * Wraps the platform's WebSocket. It cannot pause reading, so a page's buffers are bounded only by
 * the requests that it has in flight.
 *
 * @param webSocket An open WebSocket whose messages were not read yet.
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
          started.onBinary(new Uint8Array(data));
        }
      };
      webSocket.onclose = ({ code, reason }) => {
        clearTimeout(drainTimer);
        started.onClose(code, reason);
      };
    },
    sendBinary(bytes) {
      webSocket.send(bytes);
      watchDrain();
    },
    sendText: (text) => webSocket.send(text),
    pause() {},
    resume() {},
    close: (code, reason) => webSocket.close(code, reason),
    terminateSoon() {},
    later,
  };
}
