// SPDX-License-Identifier: Apache-2.0
import type { ServerRecord } from "../../model/model.ts";
import type { DirectorContext } from "../context.ts";
import type { WorldTasks } from "../worlds/world-tasks.ts";

/** Time after an answer during which a server is not checked again. */
const trustMs = 1_000;

/**
 * Servers that may be dead although their leases have not expired. A suspect server gets no agents until it
 * answers or reports again. A server becomes suspect if the ticket of an agent with a seat on it is cancelled,
 * or if the server does not answer a create.
 */
export class Suspicion {
  readonly #context: DirectorContext;
  readonly #tasks: WorldTasks;
  /** Suspect servers, by id. The value is the version of the server's last report when it became suspect. */
  readonly #suspects = new Map<string, number>();
  /** Time of each server's last answer. */
  readonly #answered = new Map<string, number>();

  constructor(context: DirectorContext, tasks: WorldTasks) {
    this.#context = context;
    this.#tasks = tasks;
  }

  isSuspect(serverId: string): boolean {
    const since = this.#suspects.get(serverId);
    return since !== undefined && since === this.#lastReport(serverId);
  }

  /** Checks the servers of matches in which an agent with a seat cancelled its ticket. */
  check(): void {
    const { replica, matchIndex } = this.#context;
    for (const matchId of matchIndex.abandoned) {
      const match = replica.get("match", matchId)?.value;
      const server = match && replica.get("server", match.serverId)?.value;
      if (server !== undefined && !this.isSuspect(server.id) && !this.#isTrusted(server.id)) {
        this.#ask(server);
      }
    }
    matchIndex.abandoned.clear();
  }

  /** Marks a server as suspect until it answers or reports again. */
  suspect(serverId: string): void {
    const report = this.#lastReport(serverId);
    if (report !== undefined) {
      this.#suspects.set(serverId, report);
    }
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

  #ask(server: ServerRecord): void {
    const { servers, settings, time, wake } = this.#context;
    const key = `ask ${server.id}`;
    this.suspect(server.id);
    if (this.#tasks.isRunning(key)) {
      return;
    }
    this.#tasks.start(key, async () => {
      try {
        await servers.check(server, settings.callbackMs);
      } catch {
        return;
      }
      this.#answered.set(server.id, time.now());
      this.#suspects.delete(server.id);
      wake();
    });
  }

  /** Returns true for a short time after a server has answered. */
  #isTrusted(serverId: string): boolean {
    const answeredMs = this.#answered.get(serverId);
    return answeredMs !== undefined && this.#context.time.now() - answeredMs < trustMs;
  }

  /** Returns the version of a server's last report. */
  #lastReport(serverId: string): number | undefined {
    return this.#context.replica.get("report", serverId)?.version;
  }
}
