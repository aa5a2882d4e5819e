// SPDX-License-Identifier: Apache-2.0
import { Counts, type TimeSource, toError } from "@dm-env-rpc/transport/internal";
import type { Emit } from "../../model/events.ts";
import { isStoreError } from "../../store/store.ts";

/** Maximum number of times that failures in a row double a cooldown. */
const maxDoublings = 5;

/** A call that blocked the process is made again after this many times the duration of the call, or later. */
const pausePerBlock = 10;

/** Returns the key of a server's cooldown. */
export function serverKey(serverId: string): string {
  return `server ${serverId}`;
}

/** Returns the key of the cooldown of a world type on a server. */
export function typeKey(serverId: string, worldType: string): string {
  // The length separates the id from the type, because both may contain any character.
  return `type ${serverId.length} ${serverId} ${worldType}`;
}

/**
 * Calls to servers in flight, and cooldowns after failures. Each kind of key has its own prefix, because servers and
 * operators choose ids and names.
 */
export class WorldTasks {
  readonly #running = new Map<string, Promise<void>>();
  readonly #creating = new Counts<string>();
  readonly #cooldowns = new Map<string, { failures: number; untilMs: number }>();
  readonly #time: TimeSource;
  readonly #emit: Emit;
  readonly #cooldownMs: number;
  #isStopped = false;

  constructor(time: TimeSource, cooldownMs: number, emit: Emit) {
    this.#time = time;
    this.#cooldownMs = cooldownMs;
    this.#emit = emit;
  }

  isRunning(key: string): boolean {
    return this.#running.has(key);
  }

  /**
   * Starts a task. The task is in flight until its promise settles. If the promise rejects, emits the error.
   * Does not emit `fenced`, because that error means that another matchmaker leads. A later tick retries the
   * work.
   */
  start(key: string, run: () => Promise<void>): void {
    const task = run()
      .catch((error: unknown) => {
        // The new leader continues the work.
        if (isStoreError(error, "fenced")) {
          return;
        }
        if (isStoreError(error)) {
          this.#emit({ kind: "store-failed", error });
        } else {
          this.#emit({ kind: "step-failed", step: key, error: toError(error) });
        }
      })
      .finally(() => this.#running.delete(key));
    this.#running.set(key, task);
  }

  /**
   * Starts a task that creates a world on a server. When the task has succeeded, calls `next`, unless `stop` was
   * called.
   */
  startCreate(worldId: string, serverId: string, run: () => Promise<void>, next: () => void): void {
    const ended = this.#creating.add(serverId);
    this.start(worldId, async () => {
      await run().finally(ended);
      if (!this.#isStopped) {
        next();
      }
    });
  }

  /** From now on, a create that succeeds does not start the next create. */
  stop(): void {
    this.#isStopped = true;
  }

  creatingOn(serverId: string): number {
    return this.#creating.of(serverId);
  }

  /** Resolves when no task is in flight. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) {
      await Promise.all(this.#running.values());
    }
  }

  isCooling(key: string): boolean {
    return this.#time.now() < (this.#cooldowns.get(key)?.untilMs ?? 0);
  }

  /**
   * Starts a cooldown.
   *
   * @param blockedMs Time for which the failed call blocked the whole process.
   */
  failed(key: string, blockedMs = 0): void {
    const failures = (this.#cooldowns.get(key)?.failures ?? 0) + 1;
    const waitMs = this.#cooldownMs * 2 ** Math.min(failures - 1, maxDoublings);
    const untilMs = this.#time.now() + Math.max(waitMs, pausePerBlock * blockedMs);
    this.#cooldowns.set(key, { failures, untilMs });
  }

  succeeded(key: string): void {
    this.#cooldowns.delete(key);
  }

  /** Forgets cooldowns that ended long ago. */
  sweep(): void {
    const now = this.#time.now();
    for (const [key, { untilMs }] of this.#cooldowns) {
      if (now > untilMs + this.#cooldownMs * 2 ** maxDoublings) {
        this.#cooldowns.delete(key);
      }
    }
  }
}
