// SPDX-License-Identifier: Apache-2.0
import type { Agent, Turn } from "./peer.ts";

/** A connection whose answers come as events. */
export interface PacedAgent extends Agent {
  /** So many answers came. */
  answered(count: number): void;
  /** The connection is lost, or an answer is wrong: whoever plays is told. */
  failed(error: Error): void;
}

/** Keeps steps in flight on a connection whose answers come as events; no promise per step. */
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
        reject(new Error("an answer came that nobody asked for"));
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
