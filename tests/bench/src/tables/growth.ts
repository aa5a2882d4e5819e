// SPDX-License-Identifier: Apache-2.0
import { type Contender, compare, type Effort, type Measured } from "../harness/compare.ts";
import { megabytes, short, textTable } from "../harness/table.ts";
import type { Options } from "../options.ts";
import { lineChart, type Panel } from "../plot/line-chart.ts";
import { measureProcesses } from "./processes.ts";
import type { TableResult } from "./table-result.ts";

/** One quantity that grows while everything else stays the same. */
interface Series {
  readonly name: string;
  readonly title: string;
  /** Unit of that quantity. */
  readonly unit: string;
  readonly sizes: readonly number[];
  readonly setUp: (size: number) => {
    readonly load: string;
    readonly connections: number;
    readonly inFlight: number;
  };
}

interface Point {
  readonly size: number;
  readonly ours: Measured;
  /** The same bytes over bare node:http2. */
  readonly floor: Measured | undefined;
}

const series: readonly Series[] = [
  {
    name: "connections",
    title: "Connections in lock-step, a world each",
    unit: "connections",
    sizes: [1, 4, 16, 64, 256, 1024, 4096],
    setUp: (connections) => ({ load: "board", connections, inFlight: 1 }),
  },
  {
    name: "agents",
    title: "Agents on the clock lockstep",
    unit: "agents in one world",
    sizes: [1, 4, 16, 64, 256, 1000],
    setUp: (connections) => ({ load: "shared", connections, inFlight: 1 }),
  },
  {
    name: "bytes",
    title: "Observations, 1 connection in lock-step",
    unit: "bytes observed",
    sizes: [100, 1_000, 10_000, 100_000, 1_000_000, 16_000_000],
    setUp: (bytes) => ({ load: `bytes:${bytes}`, connections: 1, inFlight: 1 }),
  },
  {
    name: "in-flight",
    title: "1 connection",
    unit: "steps in flight",
    sizes: [1, 2, 4, 8, 16, 32, 64],
    setUp: (inFlight) => ({ load: "board", connections: 1, inFlight }),
  },
];

const both = (id: string, peer: string): Contender => ({
  id,
  label: id,
  server: { runtime: "node", peer },
  client: { runtime: "node", peer },
});
const contenders = [both("ours", "ours-each"), both("floor", "http2-echo")];

const quick: Effort = { launches: 1, repetitions: 5, turnMs: 100, warmUpMs: 1000 };
const thorough: Effort = { launches: 1, repetitions: 15, turnMs: 130, warmUpMs: 2000 };

/** Measures speed, latency and memory as things grow; every size in processes of its own. */
export async function runGrowth(
  options: Options,
  onProgress: (text: string) => void,
): Promise<TableResult> {
  const grown: { series: Series; points: Point[] }[] = [];
  for (const each of series) {
    const points: Point[] = [];
    for (const size of each.sizes) {
      onProgress(`${size} ${each.unit}`);
      points.push(await measure(each, size, options));
    }
    grown.push({ series: each, points });
  }
  const processes = await measureProcesses(options.quick ? quick : thorough, onProgress);
  return {
    name: "growth",
    title: "Growth",
    text: [...grown.map(({ series: each, points }) => section(each, points)), processes.text].join(
      "\n\n",
    ),
    data: {
      series: grown.map(({ series: { name, title, unit }, points }) => ({
        name,
        title,
        unit,
        points,
      })),
      processes: processes.rows,
    },
    plots: [
      {
        name: "growth",
        svg: lineChart("dm-env-rpc for TypeScript as things grow", [
          ...grown.flatMap(({ series: each, points }) => panels(each, points)),
          ...processes.panels,
        ]),
      },
    ],
    missed: 0,
  };
}

async function measure(each: Series, size: number, options: Options): Promise<Point> {
  const { load, connections, inFlight } = each.setUp(size);
  const rows = await compare({
    load,
    // The floor has no shared worlds.
    contenders: load === "shared" ? contenders.slice(0, 1) : contenders,
    modes: [{ id: `${each.name}-${size}`, label: each.title, connections, inFlight }],
    effort: options.quick ? quick : thorough,
    onProgress: () => {},
  });
  const find = (id: string) => rows.find(({ contender }) => contender === id);
  const ours = find("ours");
  if (ours === undefined) {
    throw new Error(`nothing was measured of ${size} ${each.unit}`);
  }
  return { size, ours, floor: find("floor") };
}

function section({ title, unit, name }: Series, points: readonly Point[]): string {
  const head = [
    title,
    "steps/s",
    "of the floor",
    ...(name === "bytes" ? ["MB/s"] : []),
    "p50 µs",
    "p99 µs",
    "server µs CPU",
    "client µs CPU",
    "server RSS",
    "client RSS",
  ];
  const rows = points.map(({ size, ours, floor }) => [
    `${size.toLocaleString("en")} ${unit}`,
    short(ours.stepsPerSecond.median),
    floor === undefined
      ? ""
      : `${(ours.stepsPerSecond.median / floor.stepsPerSecond.median).toFixed(2)}×`,
    ...(name === "bytes" ? [short((ours.stepsPerSecond.median * size) / 1e6)] : []),
    short(ours.p50Micros?.median ?? Number.NaN),
    short(ours.p99Micros?.median ?? Number.NaN),
    short(ours.serverCpuMicros?.median ?? Number.NaN),
    short(ours.clientCpuMicros.median),
    megabytes(ours.serverRssBytes ?? Number.NaN),
    megabytes(ours.clientRssBytes),
  ]);
  return [textTable(head, rows), `  ${steepest(name, unit, points)}`].join("\n");
}

/** Returns the largest loss from one size to the next, which would reveal a cliff. */
function steepest(name: string, unit: string, points: readonly Point[]): string {
  const speed = ({ size, ours }: Point): number =>
    ours.stepsPerSecond.median * (name === "bytes" ? size : 1);
  let worst = { ratio: Number.POSITIVE_INFINITY, at: 0 };
  for (const [i, point] of points.entries()) {
    const before = points[i - 1];
    if (before === undefined) {
      continue;
    }
    const ratio = speed(point) / speed(before);
    if (ratio < worst.ratio) {
      worst = { ratio, at: point.size };
    }
  }
  const what = name === "bytes" ? "bytes a second" : "steps a second";
  return `at worst ${worst.ratio.toFixed(2)}× the ${what} of the size before, at ${worst.at.toLocaleString("en")} ${unit}`;
}

function panels({ unit }: Series, points: readonly Point[]): Panel[] {
  const line = (label: string, color: string, value: (point: Point) => number | undefined) => ({
    label,
    color,
    points: points.flatMap((point) => {
      const y = value(point);
      return y === undefined ? [] : [[point.size, y] as const];
    }),
  });
  const [blue, orange, grey] = ["#0b6bcb", "#c2410c", "#8a97a5"];
  return [
    {
      title: `Steps a second, ${unit}`,
      xLabel: unit,
      lines: [
        line("ours", blue, ({ ours }) => ours.stepsPerSecond.median),
        line("floor", grey, ({ floor }) => floor?.stepsPerSecond.median),
      ],
    },
    {
      title: `Latency in µs, ${unit}`,
      xLabel: unit,
      lines: [
        line("p50", blue, ({ ours }) => ours.p50Micros?.median),
        line("p99", orange, ({ ours }) => ours.p99Micros?.median),
      ],
    },
    {
      title: `Resident memory in MB, ${unit}`,
      xLabel: unit,
      lines: [
        line("server", blue, ({ ours }) => (ours.serverRssBytes ?? 0) / 1e6),
        line("client", grey, ({ ours }) => ours.clientRssBytes / 1e6),
      ],
    },
  ];
}
