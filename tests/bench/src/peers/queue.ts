// SPDX-License-Identifier: Apache-2.0

/** Messages to send, one by one, to its one iterator. */
export interface RequestQueue<T> extends AsyncIterable<T> {
  push(message: T): void;
  end(): void;
}

/** Creates an empty queue, for one iteration. */
export function requestQueue<T>(): RequestQueue<T> {
  const waiting: T[] = [];
  let ended = false;
  let wake: (() => void) | undefined;
  return {
    push(message) {
      waiting.push(message);
      wake?.();
    },
    end() {
      ended = true;
      wake?.();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        const message = waiting.shift();
        if (message !== undefined) {
          yield message;
        } else if (ended) {
          return;
        } else {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
          wake = undefined;
        }
      }
    },
  };
}
