// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** A redis-server for one run. */
export interface BenchRedis extends AsyncDisposable {
  readonly url: string;
}

/** Starts Debian's redis-server with its append-only file, synced every second; undefined where there is none. */
export async function startRedis(): Promise<BenchRedis | undefined> {
  const folder = await mkdtemp(join(tmpdir(), "bench-redis-"));
  const port = 20_000 + (process.pid % 20_000);
  const redis = spawn(
    "redis-server",
    [
      "--port",
      `${port}`,
      "--bind",
      "127.0.0.1",
      "--dir",
      folder,
      "--save",
      "",
      "--appendonly",
      "yes",
    ],
    { stdio: ["ignore", "pipe", "ignore"] },
  );
  const ended = once(redis, "close").catch(() => {});
  const dispose = async (): Promise<void> => {
    redis.kill("SIGKILL");
    await ended;
    await rm(folder, { recursive: true, force: true });
  };
  const failed = once(redis, "error").then(() => false);
  const ready = (async () => {
    for await (const line of createInterface(redis.stdout)) {
      if (line.includes("Ready to accept connections")) return true;
    }
    return false;
  })();
  if (await Promise.race([ready, failed.catch(() => false)])) {
    redis.stdout.resume();
    return { url: `redis://127.0.0.1:${port}`, [Symbol.asyncDispose]: dispose };
  }
  await dispose();
  return undefined;
}
