// SPDX-License-Identifier: Apache-2.0
import { summarize } from "../harness/statistics.ts";
import { short, textTable } from "../harness/table.ts";
import type { Options } from "../options.ts";
import type { TableResult } from "../tables/table-result.ts";
import { measureCarriers } from "./carriers.ts";
import { frameRate, measureViewers, viewerCount } from "./watched.ts";

type Progress = (text: string) => void;

/** Least ratio of the agents' steps/s with viewers to those without. */
const leastShare = 0.95;
/** Largest ratio of a step's CPU over WebSocket to that over HTTP/2. */
const mostCpu = 1.15;

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

function verdict(met: boolean, what: string) {
  return { met, text: `${met ? "✓" : "✗"} ${what}` };
}
