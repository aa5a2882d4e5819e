#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { fault } from "./fault.ts";
import { help, parseCommand } from "./options.ts";
import { type Progress, playRandomly } from "./play.ts";
import { playMatches } from "./play-matches.ts";
import { progressLine, summaryJson, summaryText } from "./report.ts";

const plainLineEveryMs = 2_000;
const barEveryMs = 100;

async function main(): Promise<number> {
  const command = parseCommand(process.argv.slice(2));
  switch (command.kind) {
    case "help":
      process.stdout.write(help);
      return 0;
    case "version":
      process.stdout.write(`${version()}\n`);
      return 0;
    case "wrong":
      process.stderr.write(`random-agent: ${command.message}\n`);
      return 2;
    case "play":
      break;
  }
  const ended = new AbortController();
  const end = (): void => ended.abort(new Error("ended by a signal"));
  process.on("SIGINT", end);
  process.on("SIGTERM", end);
  let stopShowing: () => void = () => undefined;
  try {
    const options = {
      ...command,
      seed: command.seed ?? randomBytes(8).readBigUInt64BE(),
      signal: ended.signal,
      onStart: (progress: Progress) => {
        stopShowing = show(progress, command.json);
      },
    };
    const summary =
      command.matchmakers.length > 0 ? await playMatches(options) : await playRandomly(options);
    stopShowing();
    process.stdout.write(command.json ? summaryJson(summary) : summaryText(summary));
    return 0;
  } catch (error) {
    stopShowing();
    process.stderr.write(`random-agent: ${fault(error, command)}\n`);
    return 1;
  } finally {
    process.off("SIGINT", end);
    process.off("SIGTERM", end);
  }
}

/**
 * Shows the progress: a bar on a terminal, plain lines otherwise.
 *
 * @returns A function that stops it.
 */
function show(progress: Progress, quiet: boolean): () => void {
  const terminal = process.stderr.isTTY;
  if (quiet && !terminal) {
    return () => undefined;
  }
  const began = performance.now();
  const line = (): string => progressLine(progress, (performance.now() - began) / 1_000, terminal);
  const draw = terminal
    ? () => process.stderr.write(`\r${line().slice(0, process.stderr.columns - 1)}\x1b[K`)
    : () => process.stderr.write(`${line()}\n`);
  const timer = setInterval(draw, terminal ? barEveryMs : plainLineEveryMs);
  return () => {
    clearInterval(timer);
    draw();
    if (terminal) {
      process.stderr.write("\n");
    }
  };
}

function version(): string {
  const manifest: unknown = JSON.parse(
    readFileSync(new URL("../package.json", import.meta.url), "utf8"),
  );
  return typeof manifest === "object" && manifest !== null && "version" in manifest
    ? String(manifest.version)
    : "unknown";
}

process.exitCode = await main();
