// SPDX-License-Identifier: Apache-2.0
// Imported into a server with NODE_OPTIONS: sends a message for every gap of at least 10 ms between two turns of the
// server's event loop.
import { clockMs } from "./clock.ts";

/** Time between two turns of an event loop. */
export interface Gap {
  readonly from: number;
  readonly to: number;
  /** CPU time that all threads of the process used during the gap. */
  readonly cpuMs: number;
}

const periodMs = 5;
const shortestMs = 10;

process.channel?.unref();
let last = clockMs();
let cpu = process.cpuUsage();
setInterval(() => {
  const now = clockMs();
  const used = process.cpuUsage();
  if (now - last >= shortestMs) {
    const cpuMs = (used.user + used.system - cpu.user - cpu.system) / 1000;
    process.send?.({ from: last, to: now, cpuMs } satisfies Gap);
  }
  last = now;
  cpu = used;
}, periodMs).unref();
