// SPDX-License-Identifier: Apache-2.0
import { startNode } from "../harness/child.ts";
import { type Contender, compare, type Mode } from "../harness/compare.ts";
import { startPair } from "../harness/pair.ts";
import { summarize } from "../harness/statistics.ts";
import { short, textTable } from "../harness/table.ts";
import type { Options } from "../options.ts";
import type { TableResult } from "../tables/table-result.ts";

type Progress = (text: string) => void;

const viewerCount = 50;
const frameRate = 30;

/** Least ratio of the agents' steps/s with viewers to those without. */
const leastShare = 0.95;
/** Largest ratio of a step's CPU over WebSocket to that over HTTP/2. */
const mostCpu = 1.15;

/** One turn with viewers, and one without. */
interface Watched {
  readonly steps: number;
  readonly watchedSteps: number;
  /** Frames per second that each viewer received. */
  readonly frames: number;
}

/** Measures the cost of pages: viewers of a world, and WebSocket instead of HTTP/2. */
export async function runBrowser(options: Options, onProgress: Progress): Promise<TableResult> {
  const watched = await measureViewers(options, onProgress);
  const share = summarize(watched.map(({ steps, watchedSteps }) => watchedSteps / steps));
  const rates = {
    alone: summarize(watched.map(({ steps }) => steps)),
    watched: summarize(watched.map(({ watchedSteps }) => watchedSteps)),
    frames: summarize(watched.map(({ frames }) => frames)),
  };
  const carriers = await measureCarriers(options, onProgress);
  const verdicts = [
    verdict(
      share.median >= leastShare,
      `${share.median.toFixed(3)} of its steps/s with ${viewerCount} viewers (≥ ${leastShare})`,
    ),
    verdict(
      rates.frames.median >= frameRate * 0.9,
      `${rates.frames.median.toFixed(1)} frames/s for each viewer (≥ ${frameRate * 0.9})`,
    ),
    ...carriers.map(({ label, ratio }) =>
      verdict(
        ratio <= mostCpu,
        `${ratio.toFixed(2)} × the CPU of a step over HTTP/2, ${label} (≤ ${mostCpu})`,
      ),
    ),
  ];
  const text = [
    textTable(
      ["A world with an agent in lock-step", "steps/s"],
      [
        ["nobody watches", short(rates.alone.median)],
        [`${viewerCount} viewers, ${frameRate} frames/s each`, short(rates.watched.median)],
      ],
    ),
    textTable(
      ["WebSocket to HTTP/2, both sides", "CPU µs, HTTP/2", "CPU µs, WebSocket"],
      carriers.map(({ label, http2, webSocket }) => [
        label,
        http2.toFixed(1),
        webSocket.toFixed(1),
      ]),
    ),
    verdicts.map(({ text }) => `  ${text}`).join("\n"),
  ].join("\n\n");
  return {
    name: "browser",
    title: "What pages cost",
    text,
    data: { viewerCount, frameRate, share, rates, carriers, verdicts },
    plots: [],
    missed: verdicts.filter(({ met }) => !met).length,
  };
}

/** Turns with viewers and without, one after the other, in the same processes. */
async function measureViewers(options: Options, onProgress: Progress): Promise<readonly Watched[]> {
  const [turns, turnMs, warmUpMs] = options.quick ? [5, 500, 1_000] : [24, 1_000, 5_000];
  await using pair = await startPair(options, { server: "ours", client: "ours" }, "board");
  const watching = startNode(options, "viewers");
  try {
    await pair.connect("agent", 1);
    await pair.client.ask("play", { group: "agent", inFlight: 1, durationMs: warmUpMs });
    const watched: Watched[] = [];
    for (let turn = 0; turn <= turns; turn++) {
      onProgress(`turn ${turn} of ${turns}: viewers`);
      const play = { group: "agent", inFlight: 1, durationMs: turnMs };
      const alone = await pair.client.ask("play", play);
      await watching.ask("connect", {
        group: "viewers",
        peer: "viewers",
        load: "board",
        port: pair.port,
        connections: viewerCount,
        inFlight: 1,
      });
      const [seen, viewed] = await Promise.all([
        pair.client.ask("play", play),
        watching.ask("play", { ...play, group: "viewers" }),
      ]);
      await watching.ask("close", { group: "viewers" });
      // In the first turn the viewers' process warms up.
      if (turn > 0) {
        watched.push({
          steps: (alone.steps * 1_000) / alone.elapsedMs,
          watchedSteps: (seen.steps * 1_000) / seen.elapsedMs,
          frames: (viewed.steps * 1_000) / viewed.elapsedMs / viewerCount,
        });
      }
    }
    return watched;
  } finally {
    await watching.close();
  }
}

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

async function measureCarriers(options: Options, onProgress: Progress) {
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

function verdict(met: boolean, what: string) {
  return { met, text: `${met ? "✓" : "✗"} ${what}` };
}
