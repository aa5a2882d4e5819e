// SPDX-License-Identifier: Apache-2.0
import type { Bar } from "../harness/bars.ts";
import type { Effort, Mode } from "../harness/compare.ts";
import { largeContenders, smallContenders } from "./contenders.ts";
import type { RpcTable } from "./run-rpc.ts";

const lock1: Mode = {
  id: "lock1",
  label: "1 connection, lock-step",
  connections: 1,
  inFlight: 1,
};
const smallModes: readonly Mode[] = [
  lock1,
  { id: "pipe64", label: "1 connection, 64 in flight", connections: 1, inFlight: 64 },
  { id: "lock8", label: "8 connections, lock-step", connections: 8, inFlight: 1 },
  { id: "lock64", label: "64 connections, lock-step", connections: 64, inFlight: 1 },
];

const speed = (mode: string, against: string, bound: number, aim?: number): Bar => ({
  mode,
  contender: "ours",
  against,
  figure: "stepsPerSecond",
  bound,
  ...(aim === undefined ? {} : { aim }),
});

const smallBars: readonly Bar[] = [
  speed("lock1", "connect", 1.15),
  { mode: "lock1", contender: "ours", against: "connect", figure: "cpu", bound: 0.75 },
  speed("lock1", "python", 2),
  speed("lock1", "http2-echo", 0.8, 0.9),
  { ...speed("lock1", "python", 1.15), contender: "python-ours" },
  speed("pipe64", "connect", 5),
  speed("pipe64", "python", 20),
  speed("pipe64", "http2-echo", 0.25, 0.35),
  speed("lock8", "connect", 2.2),
  speed("lock8", "python", 12),
  speed("lock8", "http2-echo", 0.7, 0.85),
  speed("lock64", "connect", 2.5),
  speed("lock64", "python", 12),
  speed("lock64", "http2-echo", 0.7, 0.85),
];

const largeBars: readonly Bar[] = [
  speed("lock1", "connect-defaults", 25),
  speed("lock1", "python", 11),
  speed("lock1", "http2-echo", 0.65, 0.8),
].flatMap((bar) => [bar, { ...bar, contender: "ours-reuse" }]);

const quick: Effort = { launches: 1, repetitions: 5, turnMs: 70, warmUpMs: 1000 };
// Many turns, so that a slow spell of the machine affects every contender alike. Yet each is long
// enough that starting with the processor's caches full of another contender's data hardly counts.
const thorough: Effort = { launches: 3, repetitions: 8, turnMs: 200, warmUpMs: 2500 };

/** Small steps: one int8 in, two float32 scalars and a uint8 [10,5] board out. */
export const smallSteps: RpcTable = {
  name: "rpc",
  title: "Small steps (int8 in; two float32 and a uint8 [10,5] out)",
  load: "board",
  contenders: smallContenders,
  modes: smallModes,
  bars: smallBars,
  quick,
  thorough,
};

/** Large steps: a uint8 [210,160,3] and a float32 [84,84,4] out, 214 KB. */
export const largeSteps: RpcTable = {
  name: "large",
  title: "Large observations (uint8 [210,160,3] and float32 [84,84,4] out, 214 KB)",
  load: "screen",
  contenders: largeContenders,
  modes: [lock1],
  bars: largeBars,
  quick: { ...quick, turnMs: 150 },
  thorough,
};
