// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { freePort } from "./free-port.ts";

/** Whether this machine has a redis-server; without one, tests against it are skipped. */
export const hasRedis: boolean =
  spawnSync("redis-server", ["--version"], { stdio: "ignore" }).status === 0;

/** Says why tests are skipped, where they are. */
export function sayWhetherRedis(): void {
  if (hasRedis) return;
  process.stderr.write("skipped: no redis-server here; apt-get install redis-server\n");
}

/** A real Redis on a free port, which keeps what it has in a folder of its own. */
export class RedisServer implements AsyncDisposable {
  readonly port: number;
  readonly url: string;
  readonly #folder: string;
  readonly #sync: "always" | "everysec";
  #process: ChildProcess | undefined;

  private constructor(port: number, folder: string, sync: "always" | "everysec") {
    this.port = port;
    this.url = `redis://127.0.0.1:${port}`;
    this.#folder = folder;
    this.#sync = sync;
  }

  /**
   * Starts one.
   *
   * @param sync When its append-only file goes to the disk. Default: with each write, so that a kill loses nothing.
   */
  static async start(sync: "always" | "everysec" = "always"): Promise<RedisServer> {
    const folder = await mkdtemp(join(tmpdir(), "dm-env-rpc-redis-"));
    const server = new RedisServer(await freePort(), folder, sync);
    await server.start();
    return server;
  }

  /** Starts it, with what it had. */
  async start(): Promise<void> {
    const flags = ["--port", String(this.port), "--bind", "127.0.0.1", "--dir", this.#folder];
    const safe = ["--save", "", "--appendonly", "yes", "--appendfsync", this.#sync];
    const redis = spawn("redis-server", [...flags, ...safe], { stdio: ["ignore", "pipe", "pipe"] });
    this.#process = redis;
    let said = "";
    for await (const line of createInterface(redis.stdout)) {
      said += `${line}\n`;
      if (/Ready to accept connections/.test(line)) {
        redis.stdout.resume();
        return;
      }
    }
    throw new Error(`redis-server ended before it was ready: ${said}`);
  }

  /** Kills it, as a power cut would. */
  async kill(): Promise<void> {
    const redis = this.#process;
    this.#process = undefined;
    if (redis === undefined || redis.exitCode !== null) return;
    const ended = once(redis, "exit");
    redis.kill("SIGKILL");
    await ended;
  }

  /** Makes it deaf and dumb, without its connections being closed. */
  freeze(): void {
    this.#process?.kill("SIGSTOP");
  }

  thaw(): void {
    this.#process?.kill("SIGCONT");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await rm(this.#folder, { recursive: true, force: true });
  }
}
