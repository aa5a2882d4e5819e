// SPDX-License-Identifier: Apache-2.0
import type { ChildOptions } from "../harness/child.ts";
import { compare } from "../harness/compare.ts";
import { startPair } from "../harness/pair.ts";
import { type Summary, summarize } from "../harness/statistics.ts";
import { megabytes, short, textTable } from "../harness/table.ts";
import type { Options } from "../options.ts";
import { smallContenders } from "./contenders.ts";
import type { TableResult } from "./table-result.ts";

type Progress = (text: string) => void;

const idleConnections = 2_000;

/** Kinds of connections that hold memory on a server, all equal within a kind. */
const holders = [
  { id: "http2-idle", label: "bare node:http2, one stream", server: "http2-idle", load: "board" },
  { id: "idle", label: "idle connection", server: "ours", load: "board" },
  { id: "ours", label: "agent in a world of its own", server: "ours", load: "board" },
] as const;

interface Held {
  readonly id: string;
  readonly label: string;
  readonly bytesEach: Summary;
}

interface Growth {
  readonly load: string;
  readonly label: string;
  readonly requests: number;
  readonly grownBytes: Summary;
}

/** Measures the costs of a server besides its steps: memory, and the tail of latency. */
export async function runServer(options: Options, onProgress: Progress): Promise<TableResult> {
  const repetitions = options.quick ? 3 : 5;
  const held = await measureHeld(options, repetitions, onProgress);
  const grown = await measureGrown(options, repetitions, onProgress);
  const tail = await measureTail(options, onProgress);
  const bare = held.find(({ id }) => id === "http2-idle")?.bytesEach.median ?? Number.NaN;
  const idle = held.find(({ id }) => id === "idle")?.bytesEach.median ?? Number.NaN;
  const verdicts = [
    verdict("memory of idle connections to that of bare node:http2", idle / bare, 1.5, "×"),
    ...grown.map(({ label, grownBytes }) =>
      verdict(`growth under ${label}`, grownBytes.median / 1e6, 16, " MB"),
    ),
    verdict("p99 to median, 64 connections in lock-step", tail.ours, 5, "×"),
  ];
  const text = [
    textTable(
      [`Memory of ${idleConnections.toLocaleString("en")} connections`, "KB each", "min", "max"],
      held.map(({ label, bytesEach: { median, min, max } }) => [
        label,
        ...[median, min, max].map((bytes) => (bytes / 1000).toFixed(1)),
      ]),
    ),
    textTable(
      ["A client that never reads", "requests sent", "server grew", "min", "max"],
      grown.map(({ label, requests, grownBytes: { median, min, max } }) => [
        label,
        short(requests),
        ...[median, min, max].map(megabytes),
      ]),
    ),
    textTable(
      ["64 connections in lock-step", "p99 to median"],
      [
        ["dm-env-rpc for TypeScript", tail.ours.toFixed(2)],
        ["floor: node:http2 echo", tail.floor.toFixed(2)],
      ],
    ),
    verdicts.map(({ text }) => `  ${text}`).join("\n"),
  ].join("\n\n");
  return {
    name: "server",
    title: "What a server costs beside its steps",
    text,
    data: { idleConnections, repetitions, held, grown, tail, verdicts },
    plots: [],
    missed: verdicts.filter(({ met }) => !met).length,
  };
}

async function measureHeld(
  options: ChildOptions,
  repetitions: number,
  onProgress: Progress,
): Promise<Held[]> {
  const samples = holders.map(() => [] as number[]);
  for (let repetition = 1; repetition <= repetitions; repetition++) {
    for (const [index, { id, label, server, load }] of holders.entries()) {
      onProgress(`repetition ${repetition} of ${repetitions}: memory, ${label}`);
      await using pair = await startPair(options, { server, client: id }, load);
      // The first connections also allocate memory of the process, so they do not count.
      await pair.connect("first", 20);
      const before = await pair.server.ask("usage", { collect: true });
      await pair.connect("idle", idleConnections);
      const after = await pair.server.ask("usage", { collect: true });
      samples[index]?.push((after.rssBytes - before.rssBytes) / idleConnections);
    }
  }
  return holders.map(({ id, label }, index) => ({
    id,
    label,
    bytesEach: summarize(samples[index] ?? []),
  }));
}

async function measureGrown(
  options: Options,
  repetitions: number,
  onProgress: Progress,
): Promise<Growth[]> {
  const loads = [
    { load: "board", label: "a client that never reads small steps" },
    { load: "screen", label: "a client that never reads 214 KB steps" },
  ];
  const playMs = options.quick ? 1_000 : 3_000;
  const grown: Growth[] = [];
  for (const { load, label } of loads) {
    const samples: number[] = [];
    let requests = 0;
    for (let repetition = 1; repetition <= repetitions; repetition++) {
      onProgress(`repetition ${repetition} of ${repetitions}: ${label}`);
      await using pair = await startPair(options, { server: "ours", client: "ours" }, load);
      // Warms the server up, so that later growth is caused only by this client.
      await pair.connect("reader", 1);
      await pair.client.ask("play", { group: "reader", inFlight: 1, durationMs: playMs });
      await pair.client.ask("close", { group: "reader" });
      const before = await pair.server.ask("usage", { collect: true });
      await pair.connect("deaf", 1, 1, "never-reads");
      let most = before.rssBytes;
      const play = pair.client.ask("play", { group: "deaf", inFlight: 1, durationMs: playMs });
      let over = false;
      const watch = async (): Promise<void> => {
        while (!over) {
          most = Math.max(most, (await pair.server.ask("usage", {})).rssBytes);
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      };
      const watching = watch();
      const { steps } = await play;
      over = true;
      await watching;
      requests = steps;
      samples.push(most - before.rssBytes);
    }
    grown.push({ load, label, requests, grownBytes: summarize(samples) });
  }
  return grown;
}

async function measureTail(
  { quick, profiles }: Options,
  onProgress: Progress,
): Promise<{ ours: number; floor: number }> {
  const mode = { id: "lock64", label: "64 connections", connections: 64, inFlight: 1 };
  const rows = await compare({
    load: "board",
    contenders: smallContenders.filter(({ id }) => id === "ours" || id === "http2-echo"),
    modes: [mode],
    effort: { launches: 1, repetitions: 5, turnMs: quick ? 300 : 1_000, warmUpMs: 500 },
    profiles,
    onProgress,
  });
  const ratioOf = (id: string): number => {
    const row = rows.find(({ contender }) => contender === id);
    return (row?.p99Micros?.median ?? Number.NaN) / (row?.p50Micros?.median ?? Number.NaN);
  };
  return { ours: ratioOf("ours"), floor: ratioOf("http2-echo") };
}

function verdict(what: string, figure: number, bound: number, unit: string) {
  const met = figure <= bound;
  return {
    what,
    figure,
    bound,
    met,
    text: `${met ? "✓" : "✗"} ${figure.toFixed(2)}${unit} ${what} (≤ ${bound}${unit})`,
  };
}
