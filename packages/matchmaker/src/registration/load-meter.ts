// SPDX-License-Identifier: Apache-2.0
import type { TimeSource } from "@dm-env-rpc/transport/internal";

/** Least time between two measurements. */
const leastMs = 1_000;

interface Utilization {
  readonly idle: number;
  readonly active: number;
  readonly utilization: number;
}

/** The platform's clock. Node's clock also measures the event loop; the clock of pages does not. */
interface PlatformPerformance {
  now(): number;
  eventLoopUtilization?(current?: Utilization, last?: Utilization): Utilization;
}

/**
 * Returns a function that measures the load of this process. The load is the share of the time since the
 * last measurement in which the event loop was busy. In pages the returned function returns undefined.
 */
export function eventLoopMeter(time: TimeSource): () => number | undefined {
  const platform: PlatformPerformance = performance;
  let last = platform.eventLoopUtilization?.();
  let measuredMs = time.now();
  let load: number | undefined;
  return () => {
    if (load === undefined || time.now() - measuredMs >= leastMs) {
      const current = platform.eventLoopUtilization?.();
      const measured = platform.eventLoopUtilization?.(current, last);
      if (measured === undefined) {
        return undefined;
      }
      // Rounding may take the result out of its range. If no time has passed, the result is NaN.
      load = Math.min(1, Math.max(0, measured.utilization || 0));
      last = current;
      measuredMs = time.now();
    }
    return load;
  };
}
