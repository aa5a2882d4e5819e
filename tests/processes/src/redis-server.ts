// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { freePort } from "./free-port.ts";
import { run } from "./program.ts";

/** True if this machine has a redis-server; otherwise tests that need it are skipped. */
export const hasRedis: boolean =
  spawnSync("redis-server", ["--version"], { stdio: "ignore" }).status === 0;

/** Prints why tests are skipped, if they are. */
export function sayWhetherRedis(): void {
  if (hasRedis) {
    return;
  }
  process.stderr.write("skipped: no redis-server here; apt-get install redis-server\n");
}

/** Options of `RedisServer.start`. */
export interface RedisServerOptions {
  /** When its append-only file is synced to the disk. Default: at each write, so that a kill loses nothing. */
  readonly sync?: "always" | "everysec" | undefined;
  /** Further flags of redis-server for its port, such as `--cluster-enabled yes`. */
  readonly flags?: ((port: number) => readonly string[]) | undefined;
}

/** A real Redis on a free port, with its data in a separate folder. */
export class RedisServer implements AsyncDisposable {
  readonly port: number;
  readonly url: string;
  readonly #folder: string;
  readonly #options: RedisServerOptions;
  #process: ChildProcess | undefined;

  private constructor(port: number, folder: string, options: RedisServerOptions) {
    this.port = port;
    this.url = `redis://127.0.0.1:${port}`;
    this.#folder = folder;
    this.#options = options;
  }

  /** Starts a Redis. */
  static async start(options: RedisServerOptions = {}): Promise<RedisServer> {
    const folder = await mkdtemp(join(tmpdir(), "dm-env-rpc-redis-"));
    const server = new RedisServer(await freePort(), folder, options);
    await server.start();
    return server;
  }

  /** Starts it with its previous data. */
  async start(): Promise<void> {
    const { sync = "always", flags: further = () => [] } = this.#options;
    const flags = ["--port", String(this.port), "--bind", "127.0.0.1", "--dir", this.#folder];
    const safe = ["--save", "", "--appendonly", "yes", "--appendfsync", sync];
    const redis = spawn("redis-server", [...flags, ...safe, ...further(this.port)], {
      stdio: ["ignore", "pipe", "pipe"],
    });
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

  /**
   * Copies its data on the disk.
   *
   * @returns A function that restores the copy, to be called while Redis is killed.
   */
  async snapshot(): Promise<() => Promise<void>> {
    const copy = await mkdtemp(join(this.#folder, "..", "dm-env-rpc-redis-copy-"));
    await cp(this.#folder, copy, { recursive: true });
    return async () => {
      await rm(this.#folder, { recursive: true });
      await cp(copy, this.#folder, { recursive: true });
      await rm(copy, { recursive: true });
    };
  }

  /** Deletes its data on the disk; to be called while it is killed. */
  async wipe(): Promise<void> {
    await rm(this.#folder, { recursive: true });
    await mkdir(this.#folder);
  }

  /** Sends a command. */
  async command(...args: readonly string[]): Promise<void> {
    await run("redis-cli", ["-p", String(this.port), ...args]);
  }

  /** Kills it, like a power cut. */
  async kill(): Promise<void> {
    const redis = this.#process;
    this.#process = undefined;
    if (redis === undefined || redis.exitCode !== null) {
      return;
    }
    const ended = once(redis, "exit");
    redis.kill("SIGKILL");
    await ended;
  }

  /** Suspends it without closing its connections. */
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
