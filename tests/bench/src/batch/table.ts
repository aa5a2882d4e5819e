// SPDX-License-Identifier: Apache-2.0
import type { Bar } from "../harness/bars.ts";
import { versionsOf } from "../harness/child.ts";
import type { Contender, Measured, Mode } from "../harness/compare.ts";
import { short } from "../harness/table.ts";
import type { Options } from "../options.ts";
import { type RpcTable, runRpc } from "../tables/run-rpc.ts";
import type { TableResult } from "../tables/table-result.ts";

const node = (peer: string) => ({ runtime: "node", peer }) as const;
const python = (peer: string) => ({ runtime: "python", peer }) as const;

const contenders: readonly Contender[] = [
  {
    id: "ours",
    label: "official client, one batch",
    server: node("batch-slots"),
    client: python("batch"),
  },
  {
    id: "official-arrays",
    label: "… of createBatch",
    server: node("batch-arrays"),
    client: python("batch"),
  },
  {
    id: "slots",
    label: "our client, one batch",
    server: node("batch-slots"),
    client: node("batch-slots"),
  },
  {
    id: "arrays",
    label: "… of createBatch",
    server: node("batch-arrays"),
    client: node("batch-arrays"),
  },
  {
    id: "gymnasium",
    label: "Gymnasium SyncVectorEnv, in process",
    server: undefined,
    client: python("gymnasium"),
  },
  { id: "envpool", label: "EnvPool, in process", server: undefined, client: python("envpool") },
];

const streams: readonly Contender[] = [
  {
    id: "official-streams",
    label: "official client, a stream each",
    server: node("batch-slots"),
    client: python("streams"),
  },
  {
    id: "streams",
    label: "our client, a stream each",
    server: node("batch-streams"),
    client: node("batch-streams"),
  },
];

const framed: Contender = {
  id: "frames",
  label: "our client, frames of 84×84×4",
  server: node("batch-frames"),
  client: node("batch-frames"),
};

const slots = (count: number): Mode => ({
  id: `slots${count}`,
  label: `${count.toLocaleString("en")} slots`,
  connections: 1,
  inFlight: count,
});

const faster = (mode: string, against: string, bound: number): Bar => ({
  mode,
  contender: "ours",
  against,
  figure: "stepsPerSecond",
  bound,
});

const title = "Batches: CartPole, environment steps a second";
const quick = { launches: 1, repetitions: 3, turnMs: 200, warmUpMs: 1000 };
const thorough = { launches: 3, repetitions: 5, turnMs: 300, warmUpMs: 2500 };
const common = { name: "batch", load: "board", quick, thorough };

const tables: readonly RpcTable[] = [
  {
    ...common,
    title: `${title}, beside a stream each`,
    contenders: [...contenders, ...streams],
    modes: [slots(64)],
    bars: [faster("slots64", "official-streams", 40)],
  },
  {
    ...common,
    title,
    contenders,
    modes: [slots(256), slots(1024)],
    bars: [
      faster("slots256", "gymnasium", 3),
      faster("slots256", "envpool", 0.5),
      faster("slots1024", "envpool", 1.2),
    ],
  },
  {
    ...common,
    title: `${title}, growth`,
    contenders: contenders.filter(({ id }) => id === "slots" || id === "arrays"),
    modes: [1, 16, 4096, 16_384].map(slots),
    bars: [],
  },
  {
    ...common,
    title: `${title}, large observations`,
    contenders: [framed],
    modes: [1, 16, 256].map(slots),
    bars: [],
  },
];

/** Steps per second that a contender must reach on an idle machine. */
const floors = [
  { contender: "slots", mode: "slots256", least: 1e6 },
  { contender: "arrays", mode: "slots1024", least: 5e6 },
] as const;

/**
 * Measures batches on one stream against several streams, and against vectors in the learner's own
 * process.
 */
export async function runBatch(
  options: Options,
  onProgress: (text: string) => void,
): Promise<TableResult> {
  const installed = await versionsOf(options);
  const missing = ["gymnasium", "envpool"].filter((name) => installed[name] === undefined);
  const results: TableResult[] = [];
  for (const table of tables) {
    const present = table.contenders.filter(
      ({ id }) => !missing.includes(id) && (options.only?.includes(id) ?? true),
    );
    if (present.length === 0) {
      continue;
    }
    if (options.modes !== undefined && !table.modes.some(({ id }) => options.modes?.includes(id))) {
      continue;
    }
    results.push(await runRpc({ ...table, contenders: present }, options, onProgress));
  }
  const rows = results.flatMap(({ data }) => (data as { readonly rows: readonly Measured[] }).rows);
  const judged = floors.flatMap(({ contender, mode, least }) => {
    const row = rows.find((each) => each.contender === contender && each.mode === mode);
    return row === undefined ? [] : [{ row, least, met: row.stepsPerSecond.median >= least }];
  });
  const notes = [
    ...judged.map(
      ({ row, least, met }) =>
        `${met ? "✓" : "✗"} ${row.contender}, ${row.mode}: ${short(row.stepsPerSecond.median)} steps/s (≥ ${short(least)})`,
    ),
    ...missing.map(
      (name) => `without ${name}: this Python does not have it; pip install ${name} to compare it`,
    ),
  ];
  return {
    name: common.name,
    title,
    text: [...results.map(({ text }) => text), notes.join("\n")].join("\n\n"),
    data: results.map(({ data }) => data),
    plots: results.slice(1, 2).flatMap(({ plots }) => plots),
    missed:
      results.reduce((sum, { missed }) => sum + missed, 0) +
      judged.filter(({ met }) => !met).length,
  };
}
