// SPDX-License-Identifier: Apache-2.0
import {
  type FinalState,
  hasEnded,
  type Match,
  type Reason,
  type Ticket,
  type World,
} from "../model/model.ts";
import { type Profile, policyWithoutProfile, type WorldPolicy } from "../profiles/profile.ts";
import { put, type Replica, remove } from "../replica/replica.ts";
import type { Change, Stored } from "../store/store.ts";
import type { DirectorContext } from "./context.ts";
import type { MatchIndex } from "./indexes/match-index.ts";
import { partySizeIn } from "./matching/assignments.ts";

/**
 * Returns a ticket that waits again, in its old place. The ticket need not be watched or read for `awayMs`.
 *
 * `maxWaitMs` starts anew if the ticket had a seat. It does not start anew if the ticket's world was never created:
 * the ticket then still waits for its first seat, and creates that fail again and again must not prolong its wait.
 */
export function requeued(ticket: Ticket, nowMs: number, awayMs: number, reason: Reason): Ticket {
  const hadSeat = ticket.state === "assigned" || ticket.state === "joined";
  return {
    ...ticket,
    state: "waiting",
    waitingSinceMs: hadSeat ? nowMs : ticket.waitingSinceMs,
    matchId: undefined,
    assignment: undefined,
    reason,
    aliveUntilMs: Math.max(ticket.aliveUntilMs ?? 0, nowMs + awayMs),
  };
}

/** Returns a ticket in a final state. */
export function ended(ticket: Ticket, state: FinalState, nowMs: number, reason?: Reason): Ticket {
  return { ...ticket, state, assignment: undefined, reason, endedMs: nowMs };
}

/** Time for which a seat stays reserved after its token has expired, because a join may be in progress. */
export const seatSlackMs = 1_000;

/** Returns true if an agent of a party has joined, and the party's other agents may still join. */
export function isPartyExpected({ state, partySize, assignment }: Ticket, nowMs: number): boolean {
  const untilMs = (assignment?.expiresMs ?? 0) + seatSlackMs;
  return state === "joined" && partySize !== undefined && nowMs <= untilMs;
}

/** Returns the match without the ticket. The ticket's seats are then open. */
export function vacated(match: Match, ticketId: string): Match {
  const team = match.teams.find(({ tickets }) => tickets.includes(ticketId));
  if (team === undefined) {
    return match;
  }
  const size = partySizeIn(match, ticketId);
  const { [ticketId]: _, ...parties } = match.parties ?? {};
  return {
    ...match,
    teams: match.teams.map(({ name, tickets }) => ({
      name,
      tickets: tickets.filter((id) => id !== ticketId),
    })),
    vacancies: [...match.vacancies, ...Array.from({ length: size }, () => team.name)],
    ...(match.parties === undefined ? {} : { parties }),
  };
}

/**
 * Withdraws a cancelled ticket from a match.
 *
 * If the ticket has no join token yet, or if the server does not report tickets, the ticket is removed, and
 * its seats are open. Otherwise the ticket's agents may be inside, or may still join. So the ticket stays in
 * its team and keeps its seats. A report frees the seats once it no longer contains the ticket and the ticket's
 * unused tokens have expired.
 *
 * @param usesTokens True if the server of the match reports the tickets of its agents.
 */
export function withdrawn(match: Match, ticket: Ticket, usesTokens: boolean): Match {
  const { id, state, assignment } = ticket;
  if (!usesTokens || (state !== "assigned" && state !== "joined")) {
    return vacated(match, id);
  }
  // If a part of a party has joined, the rest may still join.
  const hasComeWhole = state === "joined" && ticket.partySize === undefined;
  const untilMs = hasComeWhole ? 0 : (assignment?.expiresMs ?? 0);
  return { ...match, held: { ...match.held, [id]: untilMs } };
}

/** Returns the match without a ticket whose seats were held. The seats are then open. */
export function released(match: Match, ticketId: string): Match {
  const { [ticketId]: _, ...held } = match.held ?? {};
  return { ...vacated(match, ticketId), held };
}

/** Returns the tickets that are in a match and have not ended. */
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

/** Returns the tickets that are in a world's match and have not ended. */
export function ticketsIn(replica: Replica, { matchId = "" }: World): Stored<Ticket>[] {
  const match = replica.get("match", matchId);
  return match === undefined ? [] : ticketsOf(replica, match.value);
}

/**
 * Returns true if the agent of a ticket has been in the ticket's world. Without join tokens, any agent that
 * has been in the world counts, because the matchmaker does not know which agents have joined.
 */
export function hasPlayed(replica: Replica, { serverId, used }: World, { state }: Ticket): boolean {
  const usesTokens = replica.get("server", serverId)?.value.joinTokens === true;
  return state === "joined" || (used && !usesTokens);
}

/** Returns the policy of a world. */
export function policyOf(matchIndex: MatchIndex, replica: Replica, world: World): WorldPolicy {
  return profileOfWorld(matchIndex, replica, world)?.policy ?? policyWithoutProfile;
}

/** Returns the profile of a world's match; for a spare world, the profile that it was created for. */
export function profileOfWorld(
  matchIndex: MatchIndex,
  replica: Replica,
  world: World,
): Profile | undefined {
  const match = replica.get("match", world.matchId ?? "")?.value;
  return matchIndex.profiles.get(match?.profile ?? world.profile);
}

/**
 * Returns the changes that delete a world and its match, and that apply `fate` to the match's tickets.
 *
 * @param fate Returns the ticket as it is after the end of its world.
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

/** Returns the `fate` that a profile gives to tickets whose world was lost. */
export function lostFate(
  { replica, settings }: Pick<DirectorContext, "replica" | "settings">,
  profile: Profile | undefined,
  reason: Reason,
): (ticket: Ticket) => Ticket {
  const nowMs = replica.now();
  return (ticket) =>
    profile?.whenLost === "fail"
      ? ended(ticket, "failed", nowMs, reason)
      : requeued(ticket, nowMs, settings.awayMs, reason);
}
