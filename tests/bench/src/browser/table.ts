// SPDX-License-Identifier: Apache-2.0
import { quantile, type Summary, summarize } from "../harness/statistics.ts";
import { short, textTable } from "../harness/table.ts";
import type { Options } from "../options.ts";
import type { TableResult } from "../tables/table-result.ts";
import { measureCarriers } from "./carriers.ts";
import { measurePresses } from "./key-presses.ts";
import { canvasFps, measureCanvas, measureLockStep } from "./page-worlds.ts";
import { frameRate, measureViewers, viewerCount } from "./watched.ts";

type Progress = (text: string) => void;

/** Result of one part of the bench. */
interface Part {
  readonly text: string;
  readonly data: unknown;
  readonly verdicts: readonly Verdict[];
}

interface Verdict {
  readonly met: boolean;
  readonly text: string;
}

/** Least steps/s of the small step in lock-step with a world in a page. */
const leastSteps = 2_000;
/** Least ticks/s of a canvas in its slowest slice. Its clock is set to `canvasFps`, which is above it. */
const leastTicks = 60;
/** Maximum 99th percentile of the milliseconds in which a press reaches the world. */
const mostPressMs = 20;
/** Least ratio of the agents' steps/s with viewers to those without. */
const leastShare = 0.95;
/** Largest ratio of a step's CPU over WebSocket to that over HTTP/2. */
const mostCpu = 1.15;

/** The parts by the names that `--only` takes. */
const parts: Readonly<Record<string, (options: Options, onProgress: Progress) => Promise<Part>>> = {
  worlds,
  canvas,
  presses,
  viewers,
  carriers,
};

/** Measures worlds in pages, people on pages, viewers, and WebSocket instead of HTTP/2. */
export async function runBrowser(options: Options, onProgress: Progress): Promise<TableResult> {
  const found: [string, Part][] = [];
  for (const [name, measure] of Object.entries(parts)) {
    if (options.only?.includes(name) ?? true) {
      found.push([name, await measure(options, onProgress)]);
    }
  }
  const verdicts = found.flatMap(([, part]) => part.verdicts);
  const texts = found.map(([, { text }]) => text);
  return {
    name: "browser",
    title: "What pages cost",
    text: [...texts, verdicts.map(({ text }) => `  ${text}`).join("\n")].join("\n\n"),
    data: Object.fromEntries(found.map(([name, { data }]) => [name, data])),
    plots: [],
    missed: verdicts.filter(({ met }) => !met).length,
  };
}

async function worlds(options: Options, onProgress: Progress): Promise<Part> {
  const rates = await measureLockStep(options, onProgress);
  const [direct, relayed, page] = [rates.direct, rates.relayed, rates.page].map(summarize) as [
    Summary,
    Summary,
    Summary,
  ];
  const ratio = summarize(rates.relayed.map((rate, i) => rate / (rates.direct[i] ?? Number.NaN)));
  return {
    text: textTable(
      ["A world in lock-step with a Node client", "steps/s"],
      [
        ["a server in Node", short(direct.median)],
        ["a program in Node that dials out to a relay", short(relayed.median)],
        ["a page of Chromium that dials out to a relay", short(page.median)],
      ],
    ),
    data: { direct, relayed, page, ratio },
    verdicts: [
      verdict(
        page.median >= leastSteps,
        `${short(page.median)} steps/s with a world in a page (≥ ${short(leastSteps)})`,
      ),
    ],
  };
}

async function canvas(options: Options, onProgress: Progress): Promise<Part> {
  const header = ["A canvas of 84 × 84 × 3 and the official Python client", "", ""];
  if (options.python === undefined) {
    const reason = "left out: no Python with dm-env-rpc was found";
    return { text: textTable(header, [[reason, "", ""]]), data: reason, verdicts: [] };
  }
  const data = await measureCanvas(options, onProgress);
  const { ticksPerSecond, slowest, p99Ms, seconds } = data;
  return {
    text: textTable(header, [
      ["ticks/s of its clock", canvasFps.toFixed(2), ""],
      ["ticks/s over all", ticksPerSecond.toFixed(2), `of ${seconds.toFixed(0)} s`],
      ["ticks/s of the slowest slice", slowest.toFixed(2), ""],
      ["between two ticks, p99 of the worst slice", p99Ms.toFixed(1), "ms"],
    ]),
    data,
    verdicts: [
      verdict(
        slowest >= leastTicks,
        `${slowest.toFixed(1)} ticks/s of a canvas in the slowest slice of ${seconds.toFixed(0)} s (≥ ${leastTicks})`,
      ),
    ],
  };
}

async function presses(options: Options, onProgress: Progress): Promise<Part> {
  const delays = await measurePresses(options, onProgress);
  const p50 = quantile(delays, 0.5);
  const p99 = quantile(delays, 0.99);
  return {
    text: textTable(
      ["A key on a server's page, until its world steps", "ms"],
      [
        ["half of the presses", p50.toFixed(1)],
        ["99 of 100 presses", p99.toFixed(1)],
      ],
    ),
    data: { presses: delays.length, p50, p99, slowest: Math.max(...delays) },
    verdicts: [
      verdict(
        p99 <= mostPressMs,
        `${p99.toFixed(1)} ms p99 until a key reaches the world (≤ ${mostPressMs})`,
      ),
    ],
  };
}

async function viewers(options: Options, onProgress: Progress): Promise<Part> {
  const watched = await measureViewers(options, onProgress);
  const share = summarize(watched.map(({ steps, watchedSteps }) => watchedSteps / steps));
  const rates = {
    alone: summarize(watched.map(({ steps }) => steps)),
    watched: summarize(watched.map(({ watchedSteps }) => watchedSteps)),
    frames: summarize(watched.map(({ frames }) => frames)),
  };
  return {
    text: textTable(
      ["A world with an agent in lock-step", "steps/s"],
      [
        ["nobody watches", short(rates.alone.median)],
        [`${viewerCount} viewers, ${frameRate} frames/s each`, short(rates.watched.median)],
      ],
    ),
    data: { viewerCount, frameRate, share, rates },
    verdicts: [
      verdict(
        share.median >= leastShare,
        `${share.median.toFixed(3)} of its steps/s with ${viewerCount} viewers (≥ ${leastShare})`,
      ),
      verdict(
        rates.frames.median >= frameRate * 0.9,
        `${rates.frames.median.toFixed(1)} frames/s for each viewer (≥ ${frameRate * 0.9})`,
      ),
    ],
  };
}

async function carriers(options: Options, onProgress: Progress): Promise<Part> {
  const rows = await measureCarriers(options, onProgress);
  return {
    text: textTable(
      ["WebSocket to HTTP/2, both sides", "CPU µs, HTTP/2", "CPU µs, WebSocket"],
      rows.map(({ label, http2, webSocket }) => [label, http2.toFixed(1), webSocket.toFixed(1)]),
    ),
    data: rows,
    verdicts: rows.map(({ label, ratio }) =>
      verdict(
        ratio <= mostCpu,
        `${ratio.toFixed(2)} × the CPU of a step over HTTP/2, ${label} (≤ ${mostCpu})`,
      ),
    ),
  };
}

function verdict(met: boolean, what: string): Verdict {
  return { met, text: `${met ? "✓" : "✗"} ${what}` };
}
