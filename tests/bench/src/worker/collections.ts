// SPDX-License-Identifier: Apache-2.0
import { PerformanceObserver } from "node:perf_hooks";

/**
 * Starts counting the time of this process's garbage collections; returns a function that reads it.
 */
export function countCollections(): () => number {
  let totalMs = 0;
  const add = (entries: readonly { readonly duration: number }[]): void => {
    for (const { duration } of entries) {
      totalMs += duration;
    }
  };
  const observer = new PerformanceObserver((list) => add(list.getEntries()));
  observer.observe({ entryTypes: ["gc"] });
  return () => {
    add(observer.takeRecords());
    return totalMs;
  };
}
