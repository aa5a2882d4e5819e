// SPDX-License-Identifier: Apache-2.0
import type { ServerRecord } from "../../model.ts";
import { put, remove } from "../../replica.ts";
import type { Change } from "../../store/store.ts";
import { change, type DirectorContext } from "../context.ts";
import { lostFate, profileOfWorld, worldEnded } from "../outcomes.ts";

/** Worlds of a lost server that end in one commit. */
const batchSize = 50;

/**
 * Detects silent servers. A server's lease starts when this process saw its last report, on this
 * process's own clock: clocks of other machines do not matter, and time does not count while the
 * store was unavailable or this process (perhaps with its machine) stood still.
 */
export class ServerWatch {
  readonly #context: DirectorContext;
  readonly #seen = new Map<string, { sequence: number; epoch: number; atMs: number }>();
  #lookedMs = Number.POSITIVE_INFINITY;

  constructor(context: DirectorContext) {
    this.#context = context;
  }

  /** Restarts the lease of every server. */
  reset(): void {
    this.#seen.clear();
  }

  /** Finds servers that are lost, that are back, and whose time to return is over. */
  async look(): Promise<void> {
    const { replica, settings, time } = this.#context;
    this.#passOverStandstill();
    for (const { value: server } of [...replica.table("server").values()]) {
      if (server.state === "gone") {
        await this.#giveUp(server);
        continue;
      }
      const silentMs = time.now() - this.#lastHeard(server);
      if (server.state === "lost") {
        if (silentMs >= settings.serverLeaseMs + settings.lostServerMs) {
          await this.#giveUp(server);
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

  /** Between two ticks no server can be silent for longer than until its next report was due. */
  #passOverStandstill(): void {
    const { settings, time } = this.#context;
    const stoodStillMs = time.now() - this.#lookedMs - settings.serverLeaseMs / 3;
    this.#lookedMs = time.now();
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
   * Ends the worlds of a server that is gone, and then deletes it. Any matchmaker can finish what
   * another began.
   */
  async #giveUp({ id, epoch, address }: ServerRecord): Promise<void> {
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
    const message = `the server at ${address} is gone, and its worlds with it`;
    const reason = { code: "UNAVAILABLE", message } as const;
    for (;;) {
      const worlds = [...(matchIndex.worldsOf.get(id) ?? [])].slice(0, batchSize);
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
