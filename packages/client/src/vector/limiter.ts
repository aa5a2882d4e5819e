// SPDX-License-Identifier: Apache-2.0

/** Runs at most `maxRunning` tasks concurrently, and queues the others in order. */
export function limiter(maxRunning: number): <T>(task: () => Promise<T>) => Promise<T> {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (task) => {
    if (running >= maxRunning) {
      await new Promise<void>((resolve) => waiting.push(resolve));
    } else {
      running++;
    }
    try {
      return await task();
    } finally {
      const next = waiting.shift();
      if (next === undefined) {
        running--;
      } else {
        next();
      }
    }
  };
}
