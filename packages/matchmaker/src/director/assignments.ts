// SPDX-License-Identifier: Apache-2.0
import type { Match, Ticket, World } from "../model.ts";
import type { Profile } from "../profile.ts";
import type { DirectorContext } from "./context.ts";

/** Where a ticket's agent joins, by ticket. */
export type Seats = ReadonlyMap<string, NonNullable<Ticket["assignment"]>>;

/** Where a world is, and what it is called there. */
export type OpenWorld = Pick<World, "serverId" | "address"> & { readonly name: string };

/** Signs a token for each agent of each ticket, and with it reserves a seat in a world until the profile's time is over. */
export async function reserve(
  { replica, issuer, newId }: Pick<DirectorContext, "replica" | "issuer" | "newId">,
  profile: Profile,
  match: Pick<Match, "id" | "teams" | "data" | "parties"> | undefined,
  world: OpenWorld,
  tickets: readonly string[],
): Promise<Seats> {
  const nowMs = replica.now();
  const expiresMs = nowMs + profile.seatMs;
  const data = { ...profile.data, ...match?.data };
  const teamOf = new Map(
    match?.teams.flatMap(({ name, tickets }) => tickets.map((id) => [id, name] as const)),
  );
  const entries = await Promise.all(
    tickets.map(async (ticketId) => {
      const team = teamOf.get(ticketId) ?? "";
      const part = { team, role: profile.roleOfTeam.get(team) ?? "", data };
      const partySize = match?.parties?.[ticketId] ?? 1;
      const sign = (): Promise<string> =>
        issuer.joinToken({
          ticketId,
          partySize,
          matchId: match?.id ?? "",
          part,
          serverId: world.serverId,
          address: world.address,
          worldName: world.name,
          seatId: newId(),
          nowMs,
          expiresMs,
        });
      const joinTokens = await Promise.all(Array.from({ length: partySize }, sign));
      const { address, name: worldName } = world;
      const seat = { address, worldName, joinToken: joinTokens[0] ?? "", expiresMs, ...part };
      return [ticketId, partySize === 1 ? seat : { ...seat, joinTokens }] as const;
    }),
  );
  return new Map(entries);
}

/** A ticket that has a seat. */
export function assigned(
  ticket: Ticket,
  match: Pick<Match, "id">,
  assignment: NonNullable<Ticket["assignment"]>,
): Ticket {
  return { ...ticket, state: "assigned", matchId: match.id, assignment, reason: undefined };
}

/** All tickets of a match. */
export function rosterOf({ teams }: Pick<Match, "teams">): string[] {
  return teams.flatMap(({ tickets }) => tickets);
}

/** The number of seats that the tickets of a match have. */
export function seatsTaken(match: Pick<Match, "teams" | "parties">): number {
  const parties = Object.values(match.parties ?? {});
  return rosterOf(match).length + parties.reduce((sum, size) => sum + size - 1, 0);
}

/** The parties among tickets, and those that a match has already. */
export function partiesOf(
  tickets: readonly Pick<Ticket, "id" | "partySize">[],
  known: Match["parties"] = {},
): Pick<Match, "parties"> {
  const parties = { ...known };
  for (const { id, partySize = 1 } of tickets) {
    if (partySize > 1) {
      parties[id] = partySize;
    }
  }
  return Object.keys(parties).length === 0 ? {} : { parties };
}

/** Tells of an assignment. */
export function announce(
  { emit, replica }: Pick<DirectorContext, "emit" | "replica">,
  match: Match,
  world: OpenWorld,
  tickets: readonly Ticket[],
): void {
  const now = replica.now();
  emit({
    kind: "assigned",
    matchId: match.id,
    profile: match.profile,
    serverId: world.serverId,
    worldName: world.name,
    tickets: tickets.length,
    waitedMs: tickets.map(({ createdMs }) => now - createdMs),
  });
}
