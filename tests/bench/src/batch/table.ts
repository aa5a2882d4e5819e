// SPDX-License-Identifier: Apache-2.0
import type { Bar, Verdict } from "../harness/bars.ts";
import { missingPeers } from "../harness/child.ts";
import type { Contender, Effort, Measured, Mode } from "../harness/compare.ts";
import type { Options } from "../options.ts";
import { type RpcTable, runRpc } from "../tables/run-rpc.ts";
import type { TableResult } from "../tables/table-result.ts";
import { type Floor, report } from "./report.ts";
import { measureServers } from "./servers.ts";

const node = (peer: string) => ({ runtime: "node", peer }) as const;
const python = (peer: string) => ({ runtime: "python", peer }) as const;

/** Contenders in process, which need packages of their own. */
const optional = ["gymnasium", "envpool"] as const;

const contenders: readonly Contender[] = [
  {
    id: "ours",
    label: "official client, one batch",
    server: node("batch-slots"),
    client: python("batch"),
  },
  {
    id: "official-arrays",
    label: "official client, one batch of `createBatch`",
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
    label: "our client, one batch of `createBatch`",
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

const sizes: readonly Contender[] = [
  {
    id: "floats",
    label: "4 floats",
    server: node("batch-slots"),
    client: node("batch-slots"),
  },
  {
    id: "pixels",
    label: "uint8 [16, 16, 4]",
    server: node("batch-pixels"),
    client: node("batch-pixels"),
  },
  {
    id: "frames",
    label: "uint8 [84, 84, 4]",
    server: node("batch-frames"),
    client: node("batch-frames"),
  },
];

/** Both on one server and in one client: two processes of the same program differ by more than the sockets do. */
const sockets: readonly Contender[] = [
  { id: "tcp", label: "TCP", server: node("unix-socket"), client: node("ours") },
  { id: "unix", label: "`unix:`", server: node("unix-socket"), client: node("unix-socket") },
];

const slots = (count: number): Mode => ({
  id: `slots${count}`,
  label: count.toLocaleString("en"),
  connections: 1,
  inFlight: count,
});

const faster = (mode: string, contender: string, against: string, bound: number): Bar => ({
  mode,
  contender,
  against,
  figure: "stepsPerSecond",
  bound,
});

const quick: Effort = { launches: 1, repetitions: 3, turnMs: 200, warmUpMs: 800 };
const thorough: Effort = { launches: 3, repetitions: 5, turnMs: 300, warmUpMs: 2000 };
const once: Effort = { ...thorough, launches: 1 };
const common = { name: "batch", title: "", load: "board", quick, thorough };

/** The server processes behind one vector, which no table of contenders has. */
const serversId = "servers";

const tables: readonly RpcTable[] = [
  {
    ...common,
    contenders: [...contenders, ...streams],
    modes: [slots(64)],
    bars: [faster("slots64", "ours", "official-streams", 40)],
  },
  {
    ...common,
    contenders,
    modes: [slots(256), slots(1024)],
    bars: [
      faster("slots256", "ours", "gymnasium", 3),
      faster("slots256", "ours", "envpool", 0.5),
      faster("slots1024", "ours", "envpool", 1.2),
    ],
  },
  {
    ...common,
    thorough: once,
    contenders: contenders.filter(({ id }) => id === "slots" || id === "arrays"),
    modes: [1, 16, 4096, 16_384].map(slots),
    bars: [],
  },
  {
    ...common,
    thorough: once,
    contenders: sizes,
    modes: [1, 16, 256].map(slots),
    bars: [],
  },
  {
    ...common,
    sharesProcesses: true,
    contenders: sockets,
    modes: [{ id: "lock1", label: "lock-step", connections: 1, inFlight: 1 }],
    bars: [faster("lock1", "unix", "tcp", 1.15)],
  },
];

const floors: readonly Floor[] = [
  { contender: "slots", mode: "slots256", least: 1e6 },
  { contender: "arrays", mode: "slots1024", least: 5e6 },
];

/** Measures batches beside streams and beside vectors in the learner's own process. */
export async function runBatch(
  options: Options,
  onProgress: (text: string) => void,
): Promise<TableResult> {
  const chosen = (id: string): boolean => options.only?.includes(id) ?? true;
  onProgress("trying the contenders in process");
  const missing = await missingPeers(options, optional.filter(chosen));
  const rows: Measured[] = [];
  const verdicts: Verdict[] = [];
  for (const table of tables) {
    const present = table.contenders.filter(({ id }) => chosen(id) && !Object.hasOwn(missing, id));
    const isAsked = table.modes.some(({ id }) => options.modes?.includes(id) ?? true);
    if (present.length === 0 || !isAsked) {
      continue;
    }
    const { data } = await runRpc({ ...table, contenders: present }, options, onProgress);
    const found = data as { readonly rows: readonly Measured[]; readonly verdicts: Verdict[] };
    rows.push(...found.rows);
    verdicts.push(...found.verdicts);
  }
  const effort = options.quick ? quick : thorough;
  const servers =
    chosen(serversId) && options.modes === undefined
      ? await measureServers({
          profiles: options.profiles,
          turns: effort.launches * effort.repetitions,
          turnMs: effort.turnMs,
          onProgress,
        })
      : [];
  const { text, missed } = report({
    turns: effort.launches * effort.repetitions,
    rows,
    verdicts,
    floors,
    servers,
    missing,
    contenders: tables.flatMap((table) => table.contenders),
    growth: ["slots", "arrays"],
    sizes: sizes.map(({ id }) => id),
  });
  return {
    name: common.name,
    title: "Batches: CartPole, environment steps a second",
    text,
    data: { rows, verdicts, servers, missing },
    plots: [],
    missed,
  };
}
