// SPDX-License-Identifier: Apache-2.0
import type { Report, ReportedWorld, World } from "../../model.ts";
import type { WorldPolicy } from "../../profile.ts";
import { put } from "../../replica.ts";
import { change, type DirectorContext } from "../context.ts";
import { isPartyExpected, policyOf, ticketsOf } from "../outcomes.ts";
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
  if (server === undefined || server.state === "lost" || server.state === "gone") {
    return;
  }
  if (report?.epoch !== server.epoch) {
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
  // The report may be older than the world's last change.
  if (report.receivedMs < world.openedMs) {
    return;
  }
  const policy = policyOf(matchIndex, replica, world);
  const isDue = isOver(context, world, seen, policy, serverDrains);
  if (world.state === "draining") {
    const isTimeUp = replica.now() >= (world.drainUntilMs ?? 0);
    if (isTimeUp || isVacant(context, world, seen)) {
      await to(context, world, "destroying");
    }
  } else if (isDue) {
    if (isEmpty(seen) || policy.destroy === "force") {
      await to(context, world, "destroying");
    } else if (policy.destroy === "drain") {
      await to(context, world, "draining", policy.drainMs);
    }
  } else if (isResetDue(world, seen, policy, replica.now())) {
    startReset(context, tasks, world, seen);
  }
}

/** Returns true if the policy ends a world now. */
function isOver(
  context: DirectorContext,
  world: World,
  seen: ReportedWorld,
  policy: WorldPolicy,
  serverDrains: boolean,
): boolean {
  const { replica, matchIndex } = context;
  if (world.matchId === undefined) {
    // A spare world for a match that will never exist.
    const isWanted = world.profile === "" || matchIndex.profiles.has(world.profile);
    return (serverDrains || !isWanted) && isEmpty(seen);
  }
  if (policy.destroyAfterSequences !== undefined && seen.sequences > policy.destroyAfterSequences) {
    return true;
  }
  if (!isVacant(context, world, seen)) {
    return false;
  }
  const match = replica.get("match", world.matchId)?.value;
  const isDone = world.used || match === undefined || ticketsOf(replica, match).length === 0;
  if (isDone && !policy.keepWhenEmpty) {
    return true;
  }
  const { destroyWhenIdleMs } = policy;
  const idleMs = replica.now() - (world.emptySinceMs ?? replica.now());
  return destroyWhenIdleMs !== undefined && idleMs >= destroyWhenIdleMs;
}

/** Returns true if no agent is in a world or has a seat that may still be taken. */
function isVacant({ replica }: DirectorContext, world: World, seen: ReportedWorld): boolean {
  if (!isEmpty(seen)) {
    return false;
  }
  const match =
    world.matchId === undefined ? undefined : replica.get("match", world.matchId)?.value;
  if (match === undefined) {
    return true;
  }
  // Without join tokens the matchmaker cannot tell which agents came: any join counts.
  if (replica.get("server", world.serverId)?.value.joinTokens !== true && world.used) {
    return true;
  }
  return !ticketsOf(replica, match).some(
    ({ value }) => value.state === "assigned" || isPartyExpected(value, replica.now()),
  );
}

function isResetDue(
  world: World,
  seen: ReportedWorld,
  policy: WorldPolicy,
  nowMs: number,
): boolean {
  if (seen.agents === 0 || world.state !== "open") {
    return false;
  }
  const { resetAfterSequences, resetEveryMs } = policy;
  const played = seen.sequences - world.resetSequences;
  if (resetAfterSequences !== undefined && played > resetAfterSequences) {
    return true;
  }
  return resetEveryMs !== undefined && nowMs - world.resetMs >= resetEveryMs;
}

async function to(
  context: DirectorContext,
  world: World,
  state: "draining" | "destroying",
  drainMs = 0,
): Promise<void> {
  const { replica } = context;
  await change(context, () => {
    const stored = replica.get("world", world.id);
    // A match may have claimed the world, or an agent a seat: then the next tick decides again.
    if (stored?.value !== world) {
      return undefined;
    }
    const drainUntilMs = state === "draining" ? replica.now() + drainMs : undefined;
    return [put("world", world.id, stored, { ...world, state, drainUntilMs })];
  });
}
