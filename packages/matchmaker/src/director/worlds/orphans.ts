// SPDX-License-Identifier: Apache-2.0
import { toError } from "@dm-env-rpc/transport/internal";
import { isGone } from "../../fleet/world-servers.ts";
import type { ReportedWorld, ServerRecord, World } from "../../model/model.ts";
import { put } from "../../replica/replica.ts";
import { change, type DirectorContext } from "../context.ts";
import { isEmpty } from "../servers/presence.ts";
import type { WorldTasks } from "./world-tasks.ts";

/** Maximum number of worlds of one server that are adopted in one check. The others are adopted in later checks. */
const maxAdopted = 50;

/**
 * Handles reported worlds without a record. A world that its server started with is adopted. Any other such
 * world is orphaned: for example, the outcome of its create was unknown. An orphaned world is destroyed once
 * it has been known for `orphanMs` and has no agents.
 */
export class Orphans {
  readonly #context: DirectorContext;
  readonly #tasks: WorldTasks;
  /** Time at which each orphaned world was first seen in a report. */
  readonly #seen = new Map<string, number>();
  /** Worlds that were adopted or destroyed. Each is kept until reports no longer contain the world. */
  readonly #handled = new Set<string>();

  constructor(context: DirectorContext, tasks: WorldTasks) {
    this.#context = context;
    this.#tasks = tasks;
  }

  /** Checks the reported worlds of all servers. */
  async check(): Promise<void> {
    const { replica, matchIndex } = this.#context;
    const present = new Set<string>();
    for (const { value: server } of [...replica.table("server").values()]) {
      let adopted = 0;
      for (const world of replica.get("report", server.id)?.value.worlds ?? []) {
        const key = `orphan ${server.id}\n${world.name}`;
        present.add(key);
        if (matchIndex.worldNamed(server.id, world.name) !== undefined) {
          continue;
        }
        // A report may still contain a world that has already been handled and has ended.
        if (this.#handled.has(key)) {
          continue;
        }
        if (world.premade) {
          adopted += 1;
          if (adopted <= maxAdopted) {
            await this.#adopt(server, world, key);
          }
        } else {
          this.#consider(server, world, key);
        }
      }
    }
    for (const key of this.#seen.keys()) {
      if (!present.has(key)) {
        this.#seen.delete(key);
      }
    }
    for (const key of this.#handled) {
      if (!present.has(key)) {
        this.#handled.delete(key);
      }
    }
  }

  /** Forgets all observations. For use when this matchmaker becomes the leader. */
  reset(): void {
    this.#seen.clear();
    this.#handled.clear();
  }

  #consider(server: ServerRecord, world: ReportedWorld, key: string): void {
    const { time, settings, servers, emit } = this.#context;
    const seenMs = this.#seen.get(key) ?? time.now();
    this.#seen.set(key, seenMs);
    // A create in progress may have made this world.
    const isOurs = this.#tasks.creatingOn(server.id) > 0;
    if (isOurs || !isEmpty(world)) {
      return;
    }
    if (time.now() - seenMs < settings.orphanMs || this.#tasks.isCooling(key)) {
      return;
    }
    if (this.#tasks.isRunning(key)) {
      return;
    }
    this.#tasks.start(key, async () => {
      try {
        await servers.destroy(server, world.name, settings.worldCallMs);
      } catch (error) {
        if (!isGone(error)) {
          this.#tasks.failed(key);
          emit({
            kind: "world-failed",
            serverId: server.id,
            what: "destroy",
            error: toError(error),
          });
          return;
        }
      }
      this.#handled.add(key);
      emit({ kind: "world-destroyed", serverId: server.id, worldName: world.name });
    });
  }

  async #adopt(server: ServerRecord, world: ReportedWorld, key: string): Promise<void> {
    const { replica, newId, emit } = this.#context;
    const id = newId();
    const nowMs = replica.now();
    const adopted: World = {
      id,
      serverId: server.id,
      address: server.address,
      profile: "",
      type: world.type,
      seats: 0,
      name: world.name,
      state: "open",
      createdMs: nowMs,
      openedMs: nowMs,
      used: false,
      emptySinceMs: nowMs,
      resetMs: nowMs,
      resetSequences: world.sequences,
    };
    const committed = await change(this.#context, () => {
      const known = this.#context.matchIndex.worldNamed(server.id, world.name);
      return known === undefined ? [put("world", id, undefined, adopted)] : undefined;
    });
    if (!committed) {
      return;
    }
    this.#handled.add(key);
    emit({ kind: "world-adopted", serverId: server.id, worldName: world.name });
  }
}
