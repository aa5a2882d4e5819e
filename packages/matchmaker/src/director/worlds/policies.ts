// SPDX-License-Identifier: Apache-2.0
import type { Report, ReportedWorld, World } from "../../model/model.ts";
import type { WorldPolicy } from "../../profiles/profile.ts";
import { put } from "../../replica/replica.ts";
import { change, type DirectorContext } from "../context.ts";
import { policyOf, ticketsIn } from "../outcomes.ts";
import { isEmpty } from "../servers/presence.ts";
import { startReset } from "./end-world.ts";
import type { WorldTasks } from "./world-tasks.ts";

/** Applies the policies of a server's worlds. */
export async function followPolicies(
  context: DirectorContext,
  tasks: WorldTasks,
  serverId: string,
): Promise<void> {
  const { replica, matchIndex } = context;
  const server = replica.get("server", serverId)?.value;
  const report = replica.get("report", serverId)?.value;
  if (server === undefined || report === undefined || server.state === "lost") {
    return;
  }
  for (const seen of report.worlds) {
    const world = replica.get("world", matchIndex.worldNamed(serverId, seen.name) ?? "")?.value;
    if (world?.state === "open" || world?.state === "draining") {
      await follow(context, tasks, world, seen, report, server.state === "draining");
    }
  }
}

async function follow(
  context: DirectorContext,
  tasks: WorldTasks,
  world: World,
  seen: ReportedWorld,
  report: Report,
  serverDrains: boolean,
): Promise<void> {
  const { replica, matchIndex } = context;
  // A report that is older than the world may be about an earlier world of the same name.
  if (report.receivedMs < world.openedMs) {
    return;
  }
  const policy = policyOf(matchIndex, replica, world);
  const isDue = isOver(context, world, seen, policy, serverDrains);
  if (world.state === "draining") {
    const isTimeUp = replica.now() >= (world.drainUntilMs ?? 0);
    if (isTimeUp || isVacant(context, world, seen)) {
      await to(context, world, { state: "destroying" });
    }
  } else if (isDue) {
    if (isEmpty(seen) || policy.destroy === "force") {
      await to(context, world, { state: "destroying" });
    } else if (policy.destroy === "drain") {
      const drainUntilMs = replica.now() + policy.drainMs;
      await to(context, world, { state: "draining", drainUntilMs });
    }
  } else if (isResetDue(world, seen, policy, replica.now())) {
    startReset(context, tasks, world, seen);
  }
}

/** Returns true if a world is to end now, according to its policy. */
function isOver(
  context: DirectorContext,
  world: World,
  seen: ReportedWorld,
  policy: WorldPolicy,
  serverDrains: boolean,
): boolean {
  const { replica, matchIndex } = context;
  if (world.matchId === undefined) {
    // No match will use a spare world whose profile was deleted. An adopted world has no profile.
    const isWanted = world.profile === "" || matchIndex.profiles.has(world.profile);
    return (serverDrains || !isWanted) && isEmpty(seen);
  }
  if (seen.sequences > policy.destroyAfterSequences) {
    return true;
  }
  if (!isVacant(context, world, seen)) {
    return false;
  }
  if (!policy.keepWhenEmpty) {
    return true;
  }
  const idleMs = replica.now() - (world.emptySinceMs ?? replica.now());
  return idleMs >= policy.destroyWhenIdleMs;
}

/** Returns true if no agent is in a world, and no assigned agent may still join it. */
function isVacant({ replica }: DirectorContext, world: World, seen: ReportedWorld): boolean {
  if (!isEmpty(seen)) {
    return false;
  }
  // Without join tokens, any join counts, because the matchmaker does not know which agents have joined.
  if (replica.get("server", world.serverId)?.value.joinTokens !== true && world.used) {
    return true;
  }
  return ticketsIn(replica, world).length === 0;
}

function isResetDue(
  world: World,
  seen: ReportedWorld,
  policy: WorldPolicy,
  nowMs: number,
): boolean {
  const played = seen.sequences - world.resetSequences;
  const isDue = played > policy.resetAfterSequences || nowMs - world.resetMs >= policy.resetEveryMs;
  return isDue && seen.agents > 0;
}

async function to(
  context: DirectorContext,
  world: World,
  next: Pick<World, "state" | "drainUntilMs">,
): Promise<void> {
  const { replica } = context;
  await change(context, () => {
    const stored = replica.get("world", world.id);
    // If a match or an agent has claimed the world in the meantime, the next tick decides again.
    return stored?.value === world
      ? [put("world", world.id, stored, { ...world, ...next })]
      : undefined;
  });
}
