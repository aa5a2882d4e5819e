// SPDX-License-Identifier: Apache-2.0
import { type Contender, compare, type Mode } from "../harness/compare.ts";
import type { Options } from "../options.ts";

const carriers: readonly Contender[] = ["ours", "ours-websocket"].map((peer) => ({
  id: peer,
  label: peer,
  server: { runtime: "node", peer },
  client: { runtime: "node", peer },
}));

const modes: readonly Mode[] = [
  { id: "lock1", label: "one connection, lock-step", connections: 1, inFlight: 1 },
  { id: "pipe64", label: "one connection, 64 in flight", connections: 1, inFlight: 64 },
  { id: "lock64", label: "64 connections, lock-step", connections: 64, inFlight: 1 },
];

/** Compares the CPU of a step over WebSocket with that over HTTP/2. */
export async function measureCarriers(options: Options, onProgress: (text: string) => void) {
  const rows = await compare({
    load: "board",
    sharesProcesses: true,
    contenders: carriers,
    modes,
    effort: options.quick
      ? { launches: 1, repetitions: 5, turnMs: 100, warmUpMs: 1_000 }
      : { launches: 3, repetitions: 8, turnMs: 200, warmUpMs: 2_500 },
    profiles: options.profiles,
    onProgress,
  });
  return modes.map(({ id, label }) => {
    const [http2 = Number.NaN, webSocket = Number.NaN] = carriers.map((contender) => {
      const row = rows.find((row) => row.contender === contender.id && row.mode === id);
      return (row?.serverCpuMicros?.median ?? 0) + (row?.clientCpuMicros.median ?? 0);
    });
    return { id, label, http2, webSocket, ratio: webSocket / http2 };
  });
}
