// SPDX-License-Identifier: Apache-2.0
import type { ServerRecord } from "../../model/model.ts";
import { put, remove } from "../../replica/replica.ts";
import type { Change } from "../../store/store.ts";
import { change, type DirectorContext } from "../context.ts";
import { lostFate, profileOfWorld, worldEnded } from "../outcomes.ts";

/** Worlds of a lost server that end in one commit. */
const batchSize = 50;

/**
 * Detects silent servers. A server's lease starts when this process sees a report of the server. The lease
 * runs on this process's own clock, so the clocks of other machines do not matter. Time does not count while
 * the store is unavailable, or while this process (perhaps with its machine) stands still.
 */
export class ServerWatch {
  readonly #context: DirectorContext;
  readonly #seen = new Map<string, { sequence: number; epoch: number; atMs: number }>();
  #checkedMs = Number.POSITIVE_INFINITY;

  constructor(context: DirectorContext) {
    this.#context = context;
  }

  /** Restarts the lease of every server. */
  reset(): void {
    this.#seen.clear();
  }

  /** Marks silent servers as lost. Removes lost servers that have not returned in time. */
  async check(): Promise<void> {
    const { replica, settings, time } = this.#context;
    this.#discountStandstill();
    for (const { value: server } of [...replica.table("server").values()]) {
      if (server.state === "gone") {
        await this.#remove(server);
        continue;
      }
      const silentMs = time.now() - this.#lastHeard(server);
      if (server.state === "lost") {
        if (silentMs >= settings.serverLeaseMs + settings.lostServerMs) {
          await this.#remove(server);
        }
      } else if (silentMs >= settings.serverLeaseMs) {
        await this.#lose(server);
      }
    }
    for (const id of this.#seen.keys()) {
      if (replica.get("server", id) === undefined) {
        this.#seen.delete(id);
      }
    }
  }

  /**
   * Discounts the time for which this process stood still. If the last check was more than a third of a
   * lease ago, the time beyond that third does not count as silence of servers.
   */
  #discountStandstill(): void {
    const { settings, time } = this.#context;
    const stoodStillMs = time.now() - this.#checkedMs - settings.serverLeaseMs / 3;
    this.#checkedMs = time.now();
    if (stoodStillMs <= 0) {
      return;
    }
    for (const seen of this.#seen.values()) {
      seen.atMs += stoodStillMs;
    }
  }

  #lastHeard({ id, epoch }: ServerRecord): number {
    const sequence = this.#context.replica.get("report", id)?.value.sequence ?? 0;
    const seen = this.#seen.get(id);
    if (seen !== undefined && seen.sequence === sequence && seen.epoch === epoch) {
      return seen.atMs;
    }
    const atMs = this.#context.time.now();
    this.#seen.set(id, { sequence, epoch, atMs });
    return atMs;
  }

  async #lose({ id, epoch }: ServerRecord): Promise<void> {
    const { replica, emit } = this.#context;
    const isLost = await change(this.#context, () => {
      const server = replica.get("server", id);
      if (server?.value.epoch !== epoch || server.value.state === "lost") {
        return undefined;
      }
      return [put("server", id, server, { ...server.value, state: "lost" })];
    });
    if (isLost) {
      emit({ kind: "server-lost", serverId: id });
    }
  }

  /**
   * Marks a server as gone, then ends its worlds, and then deletes the server. If this matchmaker stops before
   * the last step, the next leader continues.
   */
  async #remove({ id, epoch }: ServerRecord): Promise<void> {
    const { replica, matchIndex, servers, emit } = this.#context;
    await change(this.#context, () => {
      const server = replica.get("server", id);
      if (server?.value.epoch !== epoch || server.value.state === "gone") {
        return undefined;
      }
      return [put("server", id, server, { ...server.value, state: "gone" })];
    });
    if (replica.get("server", id)?.value.state !== "gone") {
      return;
    }
    // The tickets of agents contain the reason, which must not name the server's address.
    const message = "the server of the match is gone, and its worlds with it";
    const reason = { code: "UNAVAILABLE", message } as const;
    for (;;) {
      const worlds = [...matchIndex.worldsOf.get(id).keys()].slice(0, batchSize);
      if (worlds.length === 0) {
        break;
      }
      await change(this.#context, () =>
        worlds.flatMap((worldId): Change[] => {
          const world = replica.get("world", worldId);
          if (world === undefined) {
            return [];
          }
          const profile = profileOfWorld(matchIndex, replica, world.value);
          return worldEnded(replica, world, lostFate(this.#context, profile, reason));
        }),
      );
    }
    const isForgotten = await change(this.#context, () => {
      const server = replica.get("server", id);
      if (server?.value.state !== "gone") {
        return undefined;
      }
      const report = replica.get("report", id);
      return [
        remove("server", id, server),
        ...(report === undefined ? [] : [remove("report", id, report)]),
      ];
    });
    servers.forget(id);
    if (isForgotten) {
      emit({ kind: "server-gone", serverId: id });
    }
  }
}
