// SPDX-License-Identifier: Apache-2.0
import { PerformanceObserver } from "node:perf_hooks";

/** Counts what garbage collection takes of this process from now on; returns how to read it. */
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
