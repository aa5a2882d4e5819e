// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { connect } from "@dm-env-rpc/client";
import { type Progress, playRandomly, progressLine, summaryText } from "@dm-env-rpc/random-agent";
import { boardSettings, readBoard } from "./board.ts";
import { help, readFlags } from "./flags.ts";
import { createScreen } from "./screen.ts";
import { startServer } from "./server-process.ts";

const agents = 4;

async function main(): Promise<void> {
  const flags = readFlags(process.argv.slice(2));
  if (flags.help) {
    process.stdout.write(help);
    return;
  }
  const ended = new AbortController();
  const end = (): void => ended.abort();
  process.once("SIGINT", end);
  process.once("SIGTERM", end);

  await using server = await startServer();
  await using connection = await connect(server.address);
  const world = await connection.createWorld({ settings: boardSettings });
  process.stdout.write(
    `Level-Based Foraging at ${server.address}, world "${world}": any dm_env_rpc client can join.\n\n`,
  );

  const screen = createScreen(process.stdout);
  const rewards = new Array<number>(agents).fill(0);
  const began = performance.now();
  let progress: Progress | undefined;
  const taken = new Array<number>(agents).fill(0);
  const summary = await playRandomly({
    address: server.address,
    agents,
    world,
    steps: flags.steps,
    seed: randomBytes(8).readBigUInt64LE(),
    observations: ["agents", "food", "step", "reward"],
    signal: ended.signal,
    onStart: (started) => {
      progress = started;
    },
    onTimeStep: (agent, step) => {
      rewards[agent] = step.reward ?? 0;
      const now = performance.now();
      if (agent === 0 && progress !== undefined) {
        const line = progressLine(progress, (now - began) / 1000, process.stdout.isTTY);
        screen.show(readBoard(step, rewards), line, "");
      }
      const count = (taken[agent] ?? 0) + 1;
      taken[agent] = count;
      const wait = began + count * flags.pauseMs - now;
      return wait > 1 ? setTimeout(wait) : undefined;
    },
  });
  process.stdout.write(`\n${summaryText(summary)}`);
}

try {
  await main();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
