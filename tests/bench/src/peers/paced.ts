// SPDX-License-Identifier: Apache-2.0
import type { Agent, Turn } from "./peer.ts";

/** A connection whose responses arrive as events. */
export interface PacedAgent extends Agent {
  /** Reports `count` responses. */
  answered(count: number): void;
  /** Reports a lost connection or a wrong response, which rejects `play`. */
  failed(error: Error): void;
}

/**
 * Keeps steps in flight on a connection whose responses arrive as events, without a promise per
 * step.
 */
export function pacedAgent(send: (count: number) => void, close: () => Promise<void>): PacedAgent {
  let turn: Turn | undefined;
  let open = 0;
  let steps = 0;
  let sentAt = 0;
  let failure: Error | undefined;
  let resolve: (steps: number) => void = () => {};
  let reject: (error: Error) => void = () => {};

  const go = (count: number): void => {
    open += count;
    send(count);
  };
  return {
    play: (next) =>
      new Promise((done, fail) => {
        if (failure !== undefined) {
          throw failure;
        }
        turn = next;
        steps = 0;
        resolve = done;
        reject = fail;
        sentAt = performance.now();
        go(next.inFlight);
      }),
    answered(count) {
      open -= count;
      steps += count;
      if (turn === undefined || open < 0) {
        reject(new Error("expected no response without a request, received one"));
        return;
      }
      const now = performance.now();
      if (turn.inFlight === 1) {
        turn.latencies.record((now - sentAt) * 1000);
        sentAt = now;
      }
      if (now < turn.until) {
        go(count);
      } else if (open === 0) {
        turn = undefined;
        resolve(steps);
      }
    },
    failed(error) {
      failure = error;
      reject(error);
    },
    close,
  };
}
