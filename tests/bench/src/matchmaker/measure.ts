// SPDX-License-Identifier: Apache-2.0
import { execFile } from "node:child_process";
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Figures, Job } from "./worker/job.ts";

const run = promisify(execFile);
const workerFolder = fileURLToPath(new URL("./worker", import.meta.url));

/** Measures a matchmaker in a process of its own. */
export type Measure = (job: Job) => Promise<Figures>;

/** Measures the matchmaker of this tree. */
export const measureHere: Measure = (job) => measureIn(workerFolder, job);

/**
 * Prepares the measurement of the matchmaker of another built checkout, with the worker of this tree: an earlier commit
 * may lack it.
 */
export async function measureThere(checkout: string): Promise<Measure & AsyncDisposable> {
  // There, it resolves the packages of that checkout.
  const folder = join(checkout, "tests/bench/dist/matchmaker-of-another");
  await rm(folder, { recursive: true, force: true });
  await cp(workerFolder, folder, { recursive: true });
  const measure: Measure = (job) => measureIn(folder, job);
  return Object.assign(measure, {
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  });
}

async function measureIn(folder: string, job: Job): Promise<Figures> {
  const { stdout } = await run(process.execPath, [join(folder, "main.js"), JSON.stringify(job)]);
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as Figures;
}
