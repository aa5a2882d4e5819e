// SPDX-License-Identifier: Apache-2.0
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Collects all garbage. */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  collect();
}

/** Returns the bytes of reachable array buffers, after a garbage collection. */
export function reachableArrayBuffers(): number {
  collectGarbage();
  return process.memoryUsage().arrayBuffers;
}
