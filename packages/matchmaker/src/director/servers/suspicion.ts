// SPDX-License-Identifier: Apache-2.0
import type { DirectorContext } from "../context.ts";
import type { WorldTasks } from "../worlds/world-tasks.ts";

/** Time after an answer during which a server is not checked again. */
const trustMs = 1_000;

/**
 * Servers that may be dead although their leases last: they get no agents until they have answered,
 * or reported again. A server becomes suspect if an agent with a seat cancels its ticket, or if a
 * call is not answered.
 */
export class Suspicion {
  readonly #context: DirectorContext;
  readonly #tasks: WorldTasks;
  /** Suspect servers, each with its last report at the time when it became suspect. */
  readonly #suspects = new Map<string, string>();
  /** Time of each server's last answer. */
  readonly #answered = new Map<string, number>();

  constructor(context: DirectorContext, tasks: WorldTasks) {
    this.#context = context;
    this.#tasks = tasks;
  }

  isSuspect(serverId: string): boolean {
    const since = this.#suspects.get(serverId);
    if (since === undefined) {
      return false;
    }
    if (since === this.#lastReport(serverId)) {
      return true;
    }
    this.#suspects.delete(serverId);
    return false;
  }

  /** Checks the servers of matches in which an agent with a seat cancelled its ticket. */
  check(): void {
    const { replica, matchIndex, time } = this.#context;
    for (const matchId of matchIndex.abandoned) {
      const serverId = replica.get("match", matchId)?.value.serverId;
      if (serverId === undefined || this.#suspects.has(serverId)) {
        continue;
      }
      const answeredMs = this.#answered.get(serverId) ?? Number.NEGATIVE_INFINITY;
      if (time.now() - answeredMs >= trustMs) {
        this.#ask(serverId);
      }
    }
    matchIndex.abandoned.clear();
  }

  /** Marks a server as suspect until it answers or reports again. */
  suspect(serverId: string): void {
    this.#suspects.set(serverId, this.#lastReport(serverId));
  }

  /** Forgets servers that are gone. */
  sweep(): void {
    for (const known of [this.#suspects, this.#answered]) {
      for (const id of known.keys()) {
        if (this.#context.replica.get("server", id) === undefined) {
          known.delete(id);
        }
      }
    }
  }

  #ask(serverId: string): void {
    const { replica, servers, settings, time, wake } = this.#context;
    const server = replica.get("server", serverId)?.value;
    const key = `ask ${serverId}`;
    if (server === undefined || this.#tasks.isRunning(key)) {
      return;
    }
    this.suspect(serverId);
    this.#tasks.start(key, async () => {
      const answers = await servers.check(server, settings.callbackMs).then(
        () => true,
        () => false,
      );
      if (!answers) {
        return;
      }
      this.#answered.set(serverId, time.now());
      this.#suspects.delete(serverId);
      wake();
    });
  }

  #lastReport(serverId: string): string {
    const report = this.#context.replica.get("report", serverId)?.value;
    return `${report?.epoch}/${report?.sequence}`;
  }
}
