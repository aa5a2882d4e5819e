// SPDX-License-Identifier: Apache-2.0
import type { Match, Ticket, World } from "../model.ts";
import type { Profile } from "../profile.ts";
import type { DirectorContext } from "./context.ts";

/** Where a ticket's agent joins, by ticket. */
export type Seats = ReadonlyMap<string, NonNullable<Ticket["assignment"]>>;

/** Where a world is, and what it is called there. */
export type OpenWorld = Pick<World, "serverId" | "address"> & { readonly name: string };

/** Signs a token for each ticket, and with it reserves a seat in a world until the profile's time is over. */
export async function reserve(
  { replica, issuer, newId }: Pick<DirectorContext, "replica" | "issuer" | "newId">,
  profile: Profile,
  match: Pick<Match, "id" | "teams" | "data"> | undefined,
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
      const joinToken = await issuer.joinToken({
        ticketId,
        matchId: match?.id ?? "",
        part,
        serverId: world.serverId,
        address: world.address,
        worldName: world.name,
        seatId: newId(),
        nowMs,
        expiresMs,
      });
      const { address, name: worldName } = world;
      return [ticketId, { address, worldName, joinToken, expiresMs, ...part }] as const;
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
