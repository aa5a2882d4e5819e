// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

/** True where `perf` counts user-space instructions of this user's processes. */
export function canCountInstructions(): boolean {
  const { status, stderr } = spawnSync("perf", [...perfArguments, process.execPath, "--version"], {
    encoding: "utf8",
  });
  return status === 0 && instructionsIn(stderr) !== undefined;
}

/**
 * Runs `work` and counts the user-space instructions that a process, all its threads included,
 * executes in that time.
 *
 * Unlike CPU time the count does not depend on what else the machine does.
 *
 * @returns the result of `work`, and its instructions, which are undefined if `perf` failed.
 */
export async function withInstructions<T>(
  pids: readonly number[],
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly instructions: number | undefined }> {
  const counters = await Promise.all(pids.map(startCounter));
  try {
    const result = await work();
    const counts = await Promise.all(counters.map(({ stop }) => stop()));
    const known = counts.filter((count) => count !== undefined);
    const sum = known.reduce((total, count) => total + count, 0);
    return { result, instructions: known.length === pids.length ? sum : undefined };
  } finally {
    for (const { process } of counters) {
      process.kill("SIGKILL");
    }
  }
}

const perfArguments = ["stat", "-x,", "-e", "instructions:u"];

interface Counter {
  readonly process: ChildProcess;
  stop(): Promise<number | undefined>;
}

async function startCounter(pid: number): Promise<Counter> {
  // Counting begins once perf, which attaches late, has acknowledged it.
  const control = ["--delay=-1", "--control=fd:3,4", `--pid=${pid}`];
  const perf = spawn("perf", [...perfArguments, ...control], {
    stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"],
  });
  const [, , stderr, commands, acknowledgements] = perf.stdio as unknown as [
    null,
    null,
    Readable,
    Writable,
    Readable,
  ];
  let output = "";
  stderr.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  commands.on("error", () => {}); // It ended early; its output has no count then.
  const closed = once(perf, "close");
  commands.write("enable\n");
  await Promise.race([once(createInterface({ input: acknowledgements }), "line"), closed]);
  return {
    process: perf,
    async stop() {
      perf.kill("SIGINT");
      await closed;
      return instructionsIn(output);
    },
  };
}

function instructionsIn(output: string): number | undefined {
  const count = /^(\d+),[^\n]*instructions:u/m.exec(output)?.[1];
  return count === undefined ? undefined : Number(count);
}
