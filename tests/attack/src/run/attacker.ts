// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Order, Report } from "../children/attacker.ts";

/** Maximum time for an attacker to prepare its bytes, or to end after its attack. */
const patienceMs = 30_000;

/** The process of one attack. */
export class Attacker implements AsyncDisposable {
  readonly #process: ChildProcess;
  readonly #reports: Report[] = [];
  #onReport = (): void => {};

  constructor(attack: string) {
    const program = fileURLToPath(new URL("../children/attacker.js", import.meta.url));
    this.#process = fork(program, [attack]);
    this.#process.on("message", (report: Report) => {
      this.#reports.push(report);
      this.#onReport();
    });
    this.#process.once("exit", () => this.#onReport());
  }

  /** Waits until the bytes of the attack are prepared. */
  async ready(): Promise<void> {
    await this.#report("ready", patienceMs);
  }

  /** Attacks a port. Returns when the attack began, whether a message was answered, and what the attacker counted. */
  async attack(
    order: Order,
  ): Promise<{ readonly beganAt: number; readonly isAnswered: boolean; readonly seen: string }> {
    this.#process.send(order);
    const { at } = await this.#report("began", patienceMs);
    const ended = await this.#report("ended", order.ms + (order.untilAnsweredMs ?? 0) + patienceMs);
    if (this.#process.exitCode === null) {
      await once(this.#process, "exit");
    }
    const counts = Object.entries(ended.counts).map(([what, times]) => `${what} ×${times}`);
    const sent = `sent ${megabytes(ended.sentBytes)}, received ${megabytes(ended.receivedBytes)}`;
    const isAnswered = Object.keys(ended.counts).some((what) => /^(answered|refused)$/.test(what));
    return { beganAt: at, isAnswered, seen: [sent, ...counts].join(", ") };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      this.#process.kill("SIGKILL");
      await once(this.#process, "exit");
    }
  }

  async #report<K extends Report["kind"]>(
    kind: K,
    ms: number,
  ): Promise<Extract<Report, { readonly kind: K }>> {
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise((resolve, reject) => {
        timer = setTimeout(() => reject(new Error(`the attacker did not report "${kind}"`)), ms);
        this.#onReport = () => {
          const report = this.#reports.find((one) => isOf(one, kind));
          const { exitCode } = this.#process;
          if (report !== undefined && isOf(report, kind)) {
            resolve(report);
          } else if (exitCode !== null) {
            reject(new Error(`the attacker ended with ${exitCode}`));
          }
        };
        this.#onReport();
      });
    } finally {
      clearTimeout(timer);
      this.#onReport = () => {};
    }
  }
}

function isOf<K extends Report["kind"]>(
  report: Report,
  kind: K,
): report is Extract<Report, { readonly kind: K }> {
  return report.kind === kind;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
