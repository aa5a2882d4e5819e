// SPDX-License-Identifier: Apache-2.0
import { byTurn, type WaitingTicket } from "../../functions/match-function.ts";
import { partySizeOf } from "../../functions/parties.ts";
import { acceptsRegion } from "../../latency.ts";
import type { Match, ReportedWorld, ServerRecord, Ticket, World } from "../../model.ts";
import type { Profile } from "../../profile.ts";
import { put } from "../../replica.ts";
import type { Stored } from "../../store/store.ts";
import { commit, type DirectorContext } from "../context.ts";
import { conflict, endMatchSpan, startMatchSpan } from "../spans.ts";
import { announce, assigned, partiesOf, reserve, rosterOf, seatsOf } from "./assignments.ts";

/** Fills the open seats of live matches with tickets in matching order. The oldest match is filled first. */
export async function fillVacancies(context: DirectorContext): Promise<void> {
  const { replica, matchIndex } = context;
  const pools = new Map<string, Map<string, WaitingTicket[]>>();
  const reportOf = lastReports(context);
  const matches = [...matchIndex.vacant]
    .map((id) => replica.get("match", id))
    .filter((match) => match !== undefined)
    .sort((a, b) => a.value.createdMs - b.value.createdMs);
  for (const match of matches) {
    const profile = matchIndex.profiles.get(match.value.profile);
    if (profile?.backfill !== true || match.value.state !== "live") {
      continue;
    }
    let waiting = pools.get(profile.name);
    if (waiting === undefined) {
      waiting = new Map(
        [...(matchIndex.poolsOf(profile.name) ?? [])].map(([name, tickets]) => [
          name,
          [...tickets],
        ]),
      );
      pools.set(profile.name, waiting);
    }
    await fill(context, profile, match, waiting, reportOf);
  }
}

/** Returns a function that finds a world in its server's last report. */
function lastReports({ replica }: DirectorContext): (world: World) => ReportedWorld | undefined {
  const byServer = new Map<string, ReadonlyMap<string, ReportedWorld>>();
  return ({ serverId, name = "" }) => {
    let ofServer = byServer.get(serverId);
    if (ofServer === undefined) {
      const reported = replica.get("report", serverId)?.value.worlds ?? [];
      ofServer = new Map(reported.map((world) => [world.name, world]));
      byServer.set(serverId, ofServer);
    }
    return ofServer.get(name);
  };
}

/**
 * Returns the number of free seats of a world. Used seats are:
 *
 * - the seats of the match's tickets, also of tickets whose agents have not joined yet;
 * - one seat for each guest (an agent without a ticket).
 *
 * If the server does not report guests, they are estimated: the agents in the world, minus the seats of the
 * tickets that are inside. A ticket is inside if any agent of its party is in the world. Without join tokens,
 * every ticket of the match counts as inside.
 */
function freeSeats(
  { seats }: World,
  match: Match,
  { joinTokens }: ServerRecord,
  reported: ReportedWorld | undefined,
): number {
  const roster = rosterOf(match);
  const inside = new Set(joinTokens ? reported?.tickets : roster);
  const members = roster.filter((id) => inside.has(id));
  const excess = Math.max(0, (reported?.agents ?? 0) - seatsOf(match, members));
  return seats - seatsOf(match, roster) - (reported?.guests ?? excess);
}

async function fill(
  context: DirectorContext,
  profile: Profile,
  match: Stored<Match>,
  pools: Map<string, WaitingTicket[]>,
  reportOf: (world: World) => ReportedWorld | undefined,
): Promise<void> {
  const { replica } = context;
  const world = replica.get("world", match.value.worldId);
  if (world?.value.state !== "open" || world.value.name === undefined) {
    return;
  }
  const server = replica.get("server", world.value.serverId)?.value;
  if (server?.state !== "serving") {
    return;
  }
  if (context.isSuspect(server.id)) {
    return;
  }
  const { latencyLimit } = profile;
  const { region = "" } = server;
  const isAccepted = (ticket: WaitingTicket): boolean =>
    latencyLimit === undefined || acceptsRegion(latencyLimit, ticket, region, replica.now());
  const chosen: { readonly team: string; readonly ticket: Stored<Ticket> }[] = [];
  const used = new Set<string>();
  let free = freeSeats(world.value, match.value, server, reportOf(world.value));
  const vacancies = [...match.value.vacancies];
  for (const team of new Set(match.value.vacancies)) {
    const pool = profile.poolOfTeam.get(team);
    for (;;) {
      const room = Math.min(free, vacancies.filter((vacant) => vacant === team).length);
      const ticket =
        room <= 0
          ? undefined
          : take(
              context,
              pools,
              pool,
              used,
              (waiting) => partySizeOf(waiting) <= room && isAccepted(waiting),
            );
      if (ticket === undefined) {
        break;
      }
      used.add(ticket.value.id);
      chosen.push({ team, ticket });
      const size = partySizeOf(ticket.value);
      free -= size;
      for (let seat = 0; seat < size; seat++) {
        vacancies.splice(vacancies.indexOf(team), 1);
      }
    }
  }
  if (chosen.length === 0) {
    return;
  }
  const { serverId, address, name } = world.value;
  const where = { serverId, address, name };
  const span = startMatchSpan(
    "backfill",
    profile.name,
    chosen.map(({ ticket }) => ticket.value),
    match.value.traceparent,
  );
  const filled: Match = {
    ...match.value,
    traceparent: span.traceparent ?? match.value.traceparent,
    vacancies,
    ...partiesOf(
      chosen.map(({ ticket }) => ticket.value),
      match.value.parties,
    ),
    teams: match.value.teams.map((roster) => ({
      name: roster.name,
      tickets: [
        ...roster.tickets,
        ...chosen.flatMap(({ team, ticket }) => (team === roster.name ? [ticket.value.id] : [])),
      ],
    })),
  };
  const ids = chosen.map(({ ticket }) => ticket.value.id);
  const seats = await reserve(context, profile, filled, where, ids);
  const changes = chosen.flatMap(({ ticket }) => {
    const seat = seats.get(ticket.value.id);
    if (seat === undefined) {
      return [];
    }
    return [put("ticket", ticket.value.id, ticket, assigned(ticket.value, filled, seat))];
  });
  // The commit contains the world so that it fails if the world has begun to drain. The next tick then retries.
  const made = await commit(context, [
    put("match", filled.id, match, filled),
    put("world", world.value.id, world, world.value),
    ...changes,
  ]);
  if (made) {
    endMatchSpan(span, filled);
    announce(
      context,
      filled,
      where,
      chosen.map(({ ticket }) => ticket.value),
    );
  } else {
    span.end(conflict());
  }
}

/**
 * Returns the first unused ticket, in matching order, that fits. Searches only `pool`, or all pools if `pool`
 * is undefined.
 */
function take(
  { replica, matchIndex }: DirectorContext,
  pools: Map<string, WaitingTicket[]>,
  pool: string | undefined,
  used: ReadonlySet<string>,
  fits: (ticket: WaitingTicket) => boolean,
): Stored<Ticket> | undefined {
  for (;;) {
    const candidates = pool === undefined ? [...pools.values()] : [pools.get(pool) ?? []];
    let best: { readonly first: WaitingTicket; readonly tickets: WaitingTicket[] } | undefined;
    for (const tickets of candidates) {
      const first = tickets.find(fits);
      if (first !== undefined && (best === undefined || byTurn(first, best.first) < 0)) {
        best = { first, tickets };
      }
    }
    if (best === undefined) {
      return undefined;
    }
    const { first, tickets } = best;
    tickets.splice(tickets.indexOf(first), 1);
    // The ticket may already have been chosen from another pool, or for an earlier match.
    const stored =
      !used.has(first.id) && matchIndex.waiting.has(first.id)
        ? replica.get("ticket", first.id)
        : undefined;
    if (stored !== undefined) {
      return stored;
    }
  }
}
