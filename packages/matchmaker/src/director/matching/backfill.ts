// SPDX-License-Identifier: Apache-2.0
import { byTurn, type WaitingTicket } from "../../functions/match-function.ts";
import { partySizeOf } from "../../functions/parties.ts";
import type { Match, ReportedWorld, ServerRecord, Ticket, World } from "../../model/model.ts";
import { acceptsRegion } from "../../profiles/latency.ts";
import type { Profile } from "../../profiles/profile.ts";
import { put } from "../../replica/replica.ts";
import type { Stored } from "../../store/store.ts";
import { commit, type DirectorContext } from "../context.ts";
import { conflict, endMatchSpan, startMatchSpan } from "../spans.ts";
import {
  announce,
  assign,
  joinable,
  partiesOf,
  reserve,
  rosterOf,
  seatsOf,
} from "./assignments.ts";
import { regionOf } from "./placement.ts";

/** Waiting tickets of each pool, in matching order. */
type Pools = ReadonlyMap<string, readonly WaitingTicket[]>;

/** Fills the open seats of live matches with tickets in matching order. The oldest match is filled first. */
export async function fillVacancies(context: DirectorContext): Promise<void> {
  const { replica, matchIndex } = context;
  const waiting = new Map<string, { readonly profile: Profile; readonly pools: Pools }>();
  for (const profile of matchIndex.profiles.values()) {
    const pools = profile.backfill ? matchIndex.poolsOf(profile.name) : undefined;
    if (pools !== undefined) {
      waiting.set(profile.name, { profile, pools });
    }
  }
  const matches = [...matchIndex.vacant]
    .flatMap((id) => replica.get("match", id) ?? [])
    .sort((a, b) => a.value.createdMs - b.value.createdMs);
  for (const match of matches) {
    const found = waiting.get(match.value.profile);
    if (found !== undefined) {
      await fill(context, found.profile, match, found.pools);
    }
  }
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
  pools: Pools,
): Promise<void> {
  const { replica, matchIndex } = context;
  const found = joinable(context, match.value.worldId);
  if (found === undefined) {
    return;
  }
  const { stored, world, server } = found;
  const { latencyLimit } = profile;
  const isAccepted = (ticket: WaitingTicket): boolean =>
    latencyLimit === undefined ||
    acceptsRegion(latencyLimit, ticket, regionOf(server), replica.now());
  const reported = replica.get("report", server.id)?.value.worlds;
  let free = freeSeats(
    stored.value,
    match.value,
    server,
    reported?.find(({ name }) => name === world.name),
  );
  const chosen: { readonly team: string; readonly ticket: Stored<Ticket> }[] = [];
  const used = new Set<string>();
  const vacancies = [...match.value.vacancies];
  for (const team of new Set(match.value.vacancies)) {
    const pool = profile.poolOfTeam.get(team);
    const candidates = [...pools]
      .filter(([name]) => pool === undefined || name === pool)
      .map(([, tickets]) => tickets);
    let room = Math.min(free, vacancies.filter((vacant) => vacant === team).length);
    // Without this condition, the last search would visit every ticket.
    while (room > 0) {
      const most = room;
      const first = firstThatFits(
        candidates,
        (ticket) =>
          // An earlier match of this tick may have got the ticket, or the ticket may have been cancelled.
          matchIndex.waiting.has(ticket.id) &&
          !used.has(ticket.id) &&
          partySizeOf(ticket) <= most &&
          isAccepted(ticket),
      );
      const ticket = first && replica.get("ticket", first.id);
      if (ticket === undefined) {
        break;
      }
      used.add(ticket.value.id);
      chosen.push({ team, ticket });
      const size = partySizeOf(ticket.value);
      free -= size;
      room -= size;
      for (let seat = 0; seat < size; seat++) {
        vacancies.splice(vacancies.indexOf(team), 1);
      }
    }
  }
  if (chosen.length === 0) {
    return;
  }
  const tickets = chosen.map(({ ticket }) => ticket);
  const values = tickets.map(({ value }) => value);
  const span = startMatchSpan("backfill", profile.name, values, match.value.traceparent);
  const filled: Match = {
    ...match.value,
    traceparent: span.traceparent ?? match.value.traceparent,
    vacancies,
    ...partiesOf(values, match.value.parties),
    teams: match.value.teams.map((roster) => ({
      name: roster.name,
      tickets: [
        ...roster.tickets,
        ...chosen.flatMap(({ team, ticket }) => (team === roster.name ? [ticket.value.id] : [])),
      ],
    })),
  };
  const seats = await reserve(context, profile, filled, world, [...used]);
  // The commit contains the world so that it fails if the world has begun to drain. The next tick then retries.
  const made = await commit(context, [
    put("match", filled.id, match, filled),
    put("world", stored.value.id, stored, stored.value),
    ...assign(filled, tickets, seats),
  ]);
  if (made) {
    endMatchSpan(span, filled);
    announce(context, filled, world, values);
  } else {
    span.end(conflict());
  }
}

/** Returns the first ticket of several lists, in matching order, that fits. Each list is in matching order. */
function firstThatFits(
  lists: readonly (readonly WaitingTicket[])[],
  fits: (ticket: WaitingTicket) => boolean,
): WaitingTicket | undefined {
  const [first] = lists.flatMap((tickets) => tickets.find(fits) ?? []).sort(byTurn);
  return first;
}
