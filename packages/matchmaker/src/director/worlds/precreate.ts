// SPDX-License-Identifier: Apache-2.0
import { put } from "../../replica/replica.ts";
import { commit, type DirectorContext } from "../context.ts";
import { newWorld } from "../matching/matching.ts";
import type { Placement } from "../matching/placement.ts";
import type { WorldTasks } from "./world-tasks.ts";

/**
 * Creates the spare worlds that profiles request, as far as servers have room. Ends surplus spare worlds.
 */
export async function precreate(
  context: DirectorContext,
  placement: Placement,
  tasks: WorldTasks,
): Promise<void> {
  const { replica, matchIndex, newId } = context;
  for (const profile of matchIndex.profiles.values()) {
    const spares = [...matchIndex.spares.get(profile.name).keys()];
    for (const worldId of spares.slice(profile.precreated)) {
      const world = replica.get("world", worldId);
      if (world?.value.state !== "open") {
        continue;
      }
      const ending = { ...world.value, state: "destroying" } as const;
      await commit(context, [put("world", worldId, world, ending)]);
    }
    if (tasks.isCooling(`profile ${profile.name}`)) {
      continue;
    }
    for (let count = spares.length; count < profile.precreated; count++) {
      const server = placement.take(profile);
      if (server === undefined) {
        break;
      }
      const id = newId();
      const world = newWorld(context, profile, server, id, undefined);
      await commit(context, [put("world", id, undefined, world)]);
    }
  }
}
