// SPDX-License-Identifier: Apache-2.0
import { hasEnded, type Match, type Reason, type Ticket, type World } from "../model.ts";
import { orphanPolicy, type Profile, type WorldPolicy } from "../profile.ts";
import { put, type Replica, remove } from "../replica.ts";
import type { Change, Stored } from "../store/store.ts";
import type { DirectorContext } from "./context.ts";
import type { MatchIndex } from "./match-index.ts";

/** A ticket that goes back to its pools, in its old place. It has until `untilMs` at least to be followed. */
export function requeued(ticket: Ticket, untilMs: number, reason: Reason): Ticket {
  return {
    ...ticket,
    state: "waiting",
    matchId: undefined,
    assignment: undefined,
    reason,
    aliveUntilMs: Math.max(ticket.aliveUntilMs ?? 0, untilMs),
  };
}

/** A ticket whose story is over. */
export function ended(
  ticket: Ticket,
  state: "completed" | "cancelled" | "failed",
  nowMs: number,
  reason?: Reason,
): Ticket {
  return { ...ticket, state, assignment: undefined, reason, endedMs: nowMs };
}

/** How long after its token has expired a seat is given up: a join may be under way. */
export const seatSlackMs = 1_000;

/** Returns true while agents of a party may still come to the world that others of it have joined. */
export function isPartyExpected({ state, partySize, assignment }: Ticket, nowMs: number): boolean {
  const untilMs = (assignment?.expiresMs ?? 0) + seatSlackMs;
  return state === "joined" && partySize !== undefined && nowMs <= untilMs;
}

/** A match without one of its tickets; its seats are open. */
export function vacated(match: Match, ticketId: string): Match {
  const team = match.teams.find(({ tickets }) => tickets.includes(ticketId));
  if (team === undefined) {
    return match;
  }
  const { [ticketId]: size = 1, ...parties } = match.parties ?? {};
  return {
    ...match,
    teams: match.teams.map(({ name, tickets }) => ({
      name,
      tickets: name === team.name ? tickets.filter((id) => id !== ticketId) : tickets,
    })),
    vacancies: [...match.vacancies, ...Array.from({ length: size }, () => team.name)],
    ...(match.parties === undefined ? {} : { parties }),
  };
}

/**
 * A match without a ticket that was cancelled. Where its agent has a join token, its seat is held until the
 * server's reports and the token's end tell that nobody is in it, or can come.
 *
 * @param usesTokens True if the server of the match reports whose agents are inside.
 */
export function withdrawn(match: Match, ticket: Ticket, usesTokens: boolean): Match {
  const { id, state, assignment } = ticket;
  if (!usesTokens || (state !== "assigned" && state !== "joined")) {
    return vacated(match, id);
  }
  // Of a party that has joined, an agent may still come.
  const hasComeWhole = state === "joined" && ticket.partySize === undefined;
  const untilMs = hasComeWhole ? 0 : (assignment?.expiresMs ?? 0);
  return { ...match, held: { ...match.held, [id]: untilMs } };
}

/** A match whose held seat of a ticket is vacant. */
export function released(match: Match, ticketId: string): Match {
  const { [ticketId]: _, ...held } = match.held ?? {};
  return { ...vacated(match, ticketId), held };
}

/** The tickets that are in a match now. */
export function ticketsOf(replica: Replica, match: Match): Stored<Ticket>[] {
  const found: Stored<Ticket>[] = [];
  for (const { tickets } of match.teams) {
    for (const id of tickets) {
      const ticket = replica.get("ticket", id);
      if (ticket?.value.matchId === match.id && !hasEnded(ticket.value)) {
        found.push(ticket);
      }
    }
  }
  return found;
}

/** The policy that a world is under. */
export function policyOf(matchIndex: MatchIndex, replica: Replica, world: World): WorldPolicy {
  return profileOfWorld(matchIndex, replica, world)?.policy ?? orphanPolicy;
}

/** The profile whose match is in a world, or that it waits for. */
export function profileOfWorld(
  matchIndex: MatchIndex,
  replica: Replica,
  world: World,
): Profile | undefined {
  const match =
    world.matchId === undefined ? undefined : replica.get("match", world.matchId)?.value;
  return matchIndex.profiles.get(match?.profile ?? world.profile);
}

/**
 * The end of a world, with its match and what becomes of the tickets in it.
 *
 * @param fate Of each ticket.
 */
export function worldEnded(
  replica: Replica,
  world: Stored<World>,
  fate: (ticket: Ticket) => Ticket,
): Change[] {
  const { id, matchId } = world.value;
  const changes: Change[] = [remove("world", id, world)];
  const match = matchId === undefined ? undefined : replica.get("match", matchId);
  if (match === undefined) {
    return changes;
  }
  changes.push(remove("match", match.value.id, match));
  for (const ticket of ticketsOf(replica, match.value)) {
    changes.push(put("ticket", ticket.value.id, ticket, fate(ticket.value)));
  }
  return changes;
}

/** What becomes of a ticket whose world was lost, as its profile says. */
export function lostFate(
  { replica, settings }: Pick<DirectorContext, "replica" | "settings">,
  profile: Profile | undefined,
  reason: Reason,
): (ticket: Ticket) => Ticket {
  const nowMs = replica.now();
  return (ticket) =>
    profile?.whenLost === "fail"
      ? ended(ticket, "failed", nowMs, reason)
      : requeued(ticket, nowMs + settings.awayMs, reason);
}
