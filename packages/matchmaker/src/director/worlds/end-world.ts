// SPDX-License-Identifier: Apache-2.0
import { toError } from "@dm-env-rpc/transport/internal";
import { isGone } from "../../fleet/world-servers.ts";
import type { ReportedWorld, World } from "../../model/model.ts";
import { put } from "../../replica/replica.ts";
import { change, type DirectorContext } from "../context.ts";
import { ended, hasPlayed, requeued, worldEnded } from "../outcomes.ts";
import type { WorldTasks } from "./world-tasks.ts";

/** Starts the destroys that are due, including destroys that another leader began. */
export function startDestroys(context: DirectorContext, tasks: WorldTasks): void {
  for (const [worldId, world] of context.matchIndex.destroying) {
    if (!tasks.isRunning(worldId) && !tasks.isCooling(worldId)) {
      tasks.start(worldId, () => destroyWorld(context, tasks, world));
    }
  }
}

async function destroyWorld(
  context: DirectorContext,
  tasks: WorldTasks,
  world: World,
): Promise<void> {
  const { replica, servers, settings, emit } = context;
  const { id, serverId, address, name } = world;
  if (name !== undefined) {
    try {
      await servers.destroy({ id: serverId, address }, name, settings.worldCallMs);
    } catch (error) {
      if (!isGone(error)) {
        tasks.failed(id);
        emit({ kind: "world-failed", serverId, what: "destroy", error: toError(error) });
        return;
      }
    }
    emit({ kind: "world-destroyed", serverId, worldName: name });
  }
  const nowMs = replica.now();
  await change(context, () => {
    const stored = replica.get("world", id);
    if (stored === undefined) {
      return undefined;
    }
    return worldEnded(replica, stored, (ticket) =>
      hasPlayed(replica, stored.value, ticket)
        ? ended(ticket, "completed", nowMs)
        : requeued(ticket, nowMs, settings.awayMs, {
            code: "ABORTED",
            message: "the world was destroyed before the seat was taken",
          }),
    );
  });
}

/**
 * Starts the reset of a world. The reset is committed before the call to the server. So if the outcome of the
 * call is unknown, the call is not repeated.
 */
export function startReset(
  context: DirectorContext,
  tasks: WorldTasks,
  { id, serverId, address }: World,
  { name, sequences }: ReportedWorld,
): void {
  const { replica, servers, settings, emit } = context;
  const key = `reset ${id}`;
  if (tasks.isRunning(key)) {
    return;
  }
  tasks.start(key, async () => {
    const committed = await change(context, () => {
      const world = replica.get("world", id);
      if (world?.value.state !== "open") {
        return undefined;
      }
      const reset: World = { ...world.value, resetMs: replica.now(), resetSequences: sequences };
      return [put("world", id, world, reset)];
    });
    if (!committed) {
      return;
    }
    try {
      await servers.reset({ id: serverId, address }, name, settings.worldCallMs);
      emit({ kind: "world-reset", serverId, worldName: name });
    } catch (error) {
      emit({ kind: "world-failed", serverId, what: "reset", error: toError(error) });
    }
  });
}
