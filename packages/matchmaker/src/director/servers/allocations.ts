// SPDX-License-Identifier: Apache-2.0
import { toError } from "@dm-env-rpc/transport/internal";
import type { ServerRecord } from "../../model/model.ts";
import { put } from "../../replica/replica.ts";
import { change, type DirectorContext } from "../context.ts";
import { serverKey, type WorldTasks } from "../worlds/world-tasks.ts";

/** Allocates servers before their first world is created. */
export class Allocations {
  readonly #context: DirectorContext;
  readonly #tasks: WorldTasks;
  readonly #running = new Map<string, Promise<boolean>>();

  constructor(context: DirectorContext, tasks: WorldTasks) {
    this.#context = context;
    this.#tasks = tasks;
  }

  /**
   * Allocates a server. Worlds that wait for the same server share one call.
   *
   * @returns True if the server is allocated, or need not be.
   * @throws StoreError if the allocation cannot be recorded.
   */
  async allocate(server: ServerRecord): Promise<boolean> {
    const { id } = server;
    const running = this.#running.get(id);
    if (running !== undefined) {
      return await running;
    }
    const allocating = this.#allocate(server).finally(() => this.#running.delete(id));
    this.#running.set(id, allocating);
    return await allocating;
  }

  async #allocate({ id, address, labels = {} }: ServerRecord): Promise<boolean> {
    const { allocator, settings, replica, emit } = this.#context;
    let allocated: boolean | undefined;
    try {
      allocated = await allocator?.allocate({ id, address, labels }, settings.worldCallMs);
    } catch (error) {
      this.#tasks.failed(serverKey(id));
      emit({ kind: "allocation-failed", serverId: id, error: toError(error) });
      return false;
    }
    await change(this.#context, () => {
      const server = replica.get("server", id);
      return server === undefined || server.value.allocated === allocated
        ? undefined
        : [put("server", id, server, { ...server.value, allocated })];
    });
    if (allocated === true) {
      emit({ kind: "server-allocated", serverId: id });
    }
    return true;
  }
}
