// SPDX-License-Identifier: Apache-2.0

/** Where time comes from. */
export interface TimeSource {
  /** Milliseconds since some moment; never goes back. */
  now(): number;
  /** Runs a task once after some milliseconds; returns what forgets it. */
  after(ms: number, task: () => void): () => void;
}

/** The machine's own time. */
export const systemTime: TimeSource = {
  now: () => performance.now(),
  after: (ms, task) => {
    const timer = setTimeout(task, ms);
    return () => clearTimeout(timer);
  },
};
