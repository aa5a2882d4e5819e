// SPDX-License-Identifier: Apache-2.0
import type { Match, Report, ReportedWorld, ServerRecord, World } from "../../model/model.ts";
import { put } from "../../replica/replica.ts";
import type { Change } from "../../store/store.ts";
import { change, type DirectorContext } from "../context.ts";
import {
  ended,
  hasPlayed,
  isPartyExpected,
  lostFate,
  profileOfWorld,
  released,
  seatSlackMs,
  ticketsOf,
  vacated,
  worldEnded,
} from "../outcomes.ts";
import { isEmpty } from "./presence.ts";

/** Processes a server's report: finds agents that joined or left, and worlds that ended. */
export async function takeReport(context: DirectorContext, serverId: string): Promise<void> {
  const { replica, matchIndex } = context;
  const server = replica.get("server", serverId)?.value;
  const report = replica.get("report", serverId)?.value;
  if (server === undefined || report === undefined) {
    return;
  }
  const reported = new Map(report.worlds.map((world) => [world.name, world]));
  for (const worldId of [...matchIndex.worldsOf.get(serverId).keys()]) {
    const world = replica.get("world", worldId)?.value;
    if (world?.name === undefined) {
      continue;
    }
    const seen = reported.get(world.name);
    if (seen !== undefined) {
      context.reportedWorlds.add(worldId);
      await takeWorld(context, server, report, world.id, seen);
    } else if (hasEnded(context, world, report)) {
      await worldVanished(context, world);
    }
  }
}

/**
 * Returns true if a world that is missing in a report has ended. A report that arrives late may be
 * older than the world. So the world has ended only if an earlier report contained the world, or if the world
 * was opened at least `serverLeaseMs` before the report arrived.
 */
function hasEnded(
  { reportedWorlds, settings }: DirectorContext,
  world: World,
  report: Report,
): boolean {
  if (reportedWorlds.has(world.id)) {
    return true;
  }
  return report.receivedMs - world.openedMs >= settings.serverLeaseMs;
}

/** Processes the report of one world, in one commit. */
async function takeWorld(
  context: DirectorContext,
  server: ServerRecord,
  report: Report,
  worldId: string,
  seen: ReportedWorld,
): Promise<void> {
  const { replica, matchIndex } = context;
  const inside = new Set(seen.tickets);
  const gone = new Set(seen.left);
  const make = (): Change[] | undefined => {
    const world = replica.get("world", worldId);
    if (world === undefined) {
      return undefined;
    }
    const changes: Change[] = [];
    const known = withPresence(world.value, seen, replica.now());
    if (known !== world.value) {
      changes.push(put("world", worldId, world, known));
    }
    const { matchId } = world.value;
    const match = matchId === undefined ? undefined : replica.get("match", matchId);
    if (match === undefined || !server.joinTokens) {
      return changes;
    }
    const seatMs = profileOfWorld(matchIndex, replica, world.value)?.seatMs ?? 0;
    let left: Match = match.value;
    for (const ticket of ticketsOf(replica, match.value)) {
      const { id, state, assignment } = ticket.value;
      // A party has left if the server reports that it has left, or if none of its agents is inside or can still
      // join.
      const isExpected = isPartyExpected(ticket.value, report.receivedMs);
      if (state === "assigned" && inside.has(id)) {
        changes.push(put("ticket", id, ticket, { ...ticket.value, state: "joined" }));
      } else if (!inside.has(id) && ((state === "joined" && !isExpected) || gone.has(id))) {
        left = vacated(left, id);
        changes.push(put("ticket", id, ticket, ended(ticket.value, "completed", replica.now())));
      } else if (
        state === "assigned" &&
        report.receivedMs > (assignment?.expiresMs ?? 0) + seatSlackMs
      ) {
        left = vacated(left, id);
        const message = `the ticket's seat was reserved for ${seatMs} ms, and no agent took it; create another ticket`;
        const reason = { code: "DEADLINE_EXCEEDED", message } as const;
        changes.push(
          put("ticket", id, ticket, ended(ticket.value, "failed", replica.now(), reason)),
        );
      }
    }
    for (const [id, untilMs] of Object.entries(match.value.held ?? {})) {
      if (inside.has(id)) {
        continue;
      }
      if (gone.has(id) || report.receivedMs > untilMs + seatSlackMs) {
        left = released(left, id);
      }
    }
    if (left !== match.value) {
      changes.push(put("match", left.id, match, left));
    }
    return changes;
  };
  await change(context, make);
}

/** Returns a world with `used` and `emptySinceMs` updated from a report. */
function withPresence(world: World, seen: ReportedWorld, nowMs: number): World {
  const emptySinceMs = isEmpty(seen) ? (world.emptySinceMs ?? nowMs) : undefined;
  const used = world.used || seen.joins > 0 || seen.agents > 0;
  if (emptySinceMs === world.emptySinceMs && used === world.used) {
    return world;
  }
  return { ...world, emptySinceMs, used };
}

/** Ends a world that its server no longer has, although the matchmaker did not destroy the world. */
async function worldVanished(context: DirectorContext, world: World): Promise<void> {
  const { replica, matchIndex } = context;
  const profile = profileOfWorld(matchIndex, replica, world);
  const message = `the world "${world.name}" ended on its server before the seat was taken`;
  const fate = lostFate(context, profile, { code: "ABORTED", message });
  await change(context, () => {
    const stored = replica.get("world", world.id);
    if (stored === undefined) {
      return undefined;
    }
    return worldEnded(replica, stored, (ticket) =>
      hasPlayed(replica, stored.value, ticket)
        ? ended(ticket, "completed", replica.now())
        : fate(ticket),
    );
  });
}
