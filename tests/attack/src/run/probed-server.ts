// SPDX-License-Identifier: Apache-2.0
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Program } from "@dm-env-rpc/tests-processes";
import type { Gap } from "../children/probe.ts";

const main = fileURLToPath(import.meta.resolve("@dm-env-rpc/gridworld-server/main"));
const probe = new URL("../children/probe.js", import.meta.url).href;

/** A gridworld server with default limits, whose event loop reports its gaps. */
export class ProbedServer implements AsyncDisposable {
  readonly url: string;
  /** Gaps of the event loop of at least 10 ms. */
  readonly gaps: readonly Gap[];
  readonly #program: Program;

  private constructor(program: Program, url: string, gaps: readonly Gap[]) {
    this.#program = program;
    this.url = url;
    this.gaps = gaps;
  }

  /** Starts a server on a free port. */
  static async start(): Promise<ProbedServer> {
    const program = new Program(process.execPath, [main, "--port", "0"], {
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      env: { ...process.env, NODE_OPTIONS: `--import=${probe}` },
    });
    const gaps: Gap[] = [];
    program.process.on("message", (gap: Gap) => gaps.push(gap));
    return new ProbedServer(program, await program.says(/^listening on (\S+)$/m), gaps);
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** The server's exit code or signal, with its last output to stderr; undefined while the server runs. */
  get death(): string | undefined {
    const { exitCode, signalCode } = this.#program.process;
    const ended = exitCode ?? signalCode;
    return ended === null ? undefined : `${ended}: ${this.#program.stderr.slice(-500)}`;
  }

  /** Resident memory in bytes: now, and at its highest since the last `forgetPeak`. */
  memory(): { readonly now: number; readonly peak: number } {
    const status = readFileSync(`/proc/${this.#program.process.pid}/status`, "utf8");
    const bytesOf = (name: string): number =>
      1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]);
    return { now: bytesOf("VmRSS"), peak: bytesOf("VmHWM") };
  }

  /** Resets the peak of memory to the memory in use. */
  forgetPeak(): void {
    writeFileSync(`/proc/${this.#program.process.pid}/clear_refs`, "5");
  }

  /** Number of open file descriptors. */
  descriptors(): number {
    return readdirSync(`/proc/${this.#program.process.pid}/fd`).length;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#program[Symbol.asyncDispose]();
  }
}
