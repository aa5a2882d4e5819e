// SPDX-License-Identifier: Apache-2.0
import type { Bar } from "../harness/bars.ts";
import type { Contender, Mode } from "../harness/compare.ts";
import type { RpcTable } from "../tables/run-rpc.ts";

const contender = (id: string, label: string, peer: string): Contender => ({
  id,
  label,
  server: { runtime: "node", peer },
  client: { runtime: "node", peer },
});

const contenders: readonly Contender[] = [
  contender("ours", "vectorize: step", "vector-steps"),
  contender("reuse", "… buffers reused", "vector-reuses"),
  contender("sends", "… send and recv, half at a time", "vector-sends"),
  contender("connections", "bare connections, in rounds", "connections-in-rounds"),
  contender("connection-loops", "bare connections, a loop each", "connections-in-loops"),
  contender("environments", "environments, in rounds", "environments-in-rounds"),
  contender("environment-loops", "environments, a loop each", "environments-in-loops"),
];

const modes: readonly Mode[] = [1, 8, 64, 256].map((slots) => ({
  id: `slots${slots}`,
  label: `${slots} ${slots === 1 ? "slot" : "slots"}`,
  // One agent, with one connection per slot.
  connections: 1,
  inFlight: slots,
}));

const overhead = 1.15;

const bars: readonly Bar[] = modes.flatMap(({ id: mode }) =>
  [
    { contender: "ours", against: "connections" },
    { contender: "sends", against: "connection-loops" },
  ].flatMap((pair): Bar[] => [
    { ...pair, mode, figure: "cpu", bound: overhead },
    { ...pair, mode, figure: "stepsPerSecond", bound: Number((1 / overhead).toFixed(2)) },
  ]),
);

/**
 * Vectors against as many connections without environments: the small step, each slot on a
 * connection of its own.
 */
export const clientSteps: RpcTable = {
  name: "client",
  title: "Vectors against bare connections (int8 in; two float32 and a uint8 [10,5] out)",
  load: "board",
  sharesProcesses: true,
  contenders,
  modes,
  bars,
  quick: { launches: 1, repetitions: 5, turnMs: 100, warmUpMs: 1000 },
  thorough: { launches: 4, repetitions: 12, turnMs: 80, warmUpMs: 2500 },
};
