// SPDX-License-Identifier: Apache-2.0
import type { TimeSource } from "@dm-env-rpc/transport/internal";

/** Least time between two measurements. */
const leastMs = 1_000;

/**
 * Returns a function that measures the load of this process: the share of time, since the last
 * measurement, in which its event loop was busy. In pages it returns undefined.
 */
export function eventLoopMeter(time: TimeSource): () => number | undefined {
  // Pages do not have it.
  if (typeof performance.eventLoopUtilization !== "function") {
    return () => undefined;
  }
  let last = performance.eventLoopUtilization();
  let measuredMs = time.now();
  let load: number | undefined;
  return () => {
    if (load === undefined || time.now() - measuredMs >= leastMs) {
      const current = performance.eventLoopUtilization();
      const { utilization } = performance.eventLoopUtilization(current, last);
      // Rounding can exceed the range, and no time may have passed.
      load = Math.min(1, Math.max(0, utilization || 0));
      last = current;
      measuredMs = time.now();
    }
    return load;
  };
}
