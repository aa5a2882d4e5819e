// SPDX-License-Identifier: Apache-2.0
import type { Malformed } from "@dm-env-rpc/tensor-codec/wire";
import type { MessageStream, StreamReceiver } from "../stream/message-stream.ts";

type Event = "message" | "end" | "drain" | "close";

/** A receiver that records its calls, for tests to wait for and inspect. */
export interface Recorder<Received> {
  readonly events: readonly Event[];
  readonly messages: readonly (Received | Malformed)[];
  /** Resolves with the error of `onClose`. */
  readonly closed: Promise<Error | undefined>;
  readonly error: Error | undefined;
  /** Resolves once an event has occurred this many times. */
  seen(event: Event, times?: number): Promise<void>;
}

/** Starts a stream and records it; `reactions` are called from inside its handlers. */
export function record<Received, Sent>(
  stream: MessageStream<Received, Sent>,
  reactions: Partial<StreamReceiver<Received>> = {},
): Recorder<Received> {
  const events: Event[] = [];
  const messages: (Received | Malformed)[] = [];
  const counts: Record<Event, number> = { message: 0, end: 0, drain: 0, close: 0 };
  const waiting = new Set<{ event: Event; times: number; resolve: () => void }>();
  let failure: Error | undefined;
  let resolveClosed: (error: Error | undefined) => void = () => {};
  const closed = new Promise<Error | undefined>((resolve) => {
    resolveClosed = resolve;
  });
  let isClosed = false;
  const happened = (event: Event): void => {
    if (isClosed) {
      throw new Error(`${event} after close: expected close to be the last event`);
    }
    events.push(event);
    counts[event] += 1;
    for (const wait of waiting) {
      if (counts[wait.event] >= wait.times) {
        waiting.delete(wait);
        wait.resolve();
      }
    }
  };
  const recorder: Recorder<Received> = {
    events,
    messages,
    closed,
    get error() {
      return failure;
    },
    seen: (event, times = 1) =>
      new Promise((resolve) => {
        if (counts[event] >= times) {
          resolve();
        } else {
          waiting.add({ event, times, resolve });
        }
      }),
  };
  stream.start({
    onMessage(message, bytes) {
      messages.push(message);
      happened("message");
      reactions.onMessage?.(message, bytes);
    },
    onEnd() {
      happened("end");
      reactions.onEnd?.();
    },
    onDrain() {
      happened("drain");
      reactions.onDrain?.();
    },
    onClose(error) {
      happened("close");
      isClosed = true;
      failure = error;
      reactions.onClose?.(error);
      resolveClosed(error);
    },
  });
  return recorder;
}
