// SPDX-License-Identifier: Apache-2.0
import type { Match, ServerRecord, Ticket, World } from "../../model/model.ts";
import type { Profile } from "../../profiles/profile.ts";
import { put } from "../../replica/replica.ts";
import type { Change, Stored } from "../../store/store.ts";
import type { DirectorContext } from "../context.ts";

/** Assignments by ticket. */
export type Seats = ReadonlyMap<string, NonNullable<Ticket["assignment"]>>;

/** A world's name, and the address of its server. */
export type OpenWorld = Pick<World, "serverId" | "address"> & { readonly name: string };

/** A world that agents may join. */
export interface JoinableWorld {
  readonly stored: Stored<World>;
  readonly world: OpenWorld;
  readonly server: ServerRecord;
}

/** Returns a world with its server if the world is open, and its server serves and is not suspect. */
export function joinable(
  { replica, isSuspect }: Pick<DirectorContext, "replica" | "isSuspect">,
  worldId: string,
): JoinableWorld | undefined {
  const stored = replica.get("world", worldId);
  const server = replica.get("server", stored?.value.serverId ?? "")?.value;
  if (stored?.value.state !== "open" || server?.state !== "serving" || isSuspect(server.id)) {
    return undefined;
  }
  const { serverId, address, name } = stored.value;
  return name === undefined ? undefined : { stored, world: { serverId, address, name }, server };
}

/**
 * Signs a token for each agent of the given tickets of a match. A token reserves a seat in the world, for a
 * time that the profile sets.
 */
export async function reserve(
  { replica, issuer, newId }: Pick<DirectorContext, "replica" | "issuer" | "newId">,
  profile: Profile,
  match: Pick<Match, "id" | "teams" | "data" | "parties" | "traceparent">,
  world: OpenWorld,
  tickets: readonly string[],
): Promise<Seats> {
  const { serverId, address, name: worldName } = world;
  const nowMs = replica.now();
  const expiresMs = nowMs + profile.seatMs;
  const data = { ...profile.data, ...match.data };
  const reserveFor = async (ticketId: string, team: string) => {
    const part = { team, role: profile.roleOfTeam.get(team) ?? "", data };
    const partySize = partySizeIn(match, ticketId);
    const sign = (): Promise<string> =>
      issuer.joinToken({
        ticketId,
        partySize,
        matchId: match.id,
        part,
        traceparent: match.traceparent,
        serverId,
        address,
        worldName,
        seatId: newId(),
        nowMs,
        expiresMs,
      });
    const joinTokens = await Promise.all([sign(), ...Array.from({ length: partySize - 1 }, sign)]);
    const seat = { address, worldName, joinToken: joinTokens[0], expiresMs, ...part };
    return [ticketId, partySize === 1 ? seat : { ...seat, joinTokens }] as const;
  };
  const wanted = new Set(tickets);
  const entries = match.teams.flatMap(({ name: team, tickets }) =>
    tickets.filter((id) => wanted.has(id)).map((id) => reserveFor(id, team)),
  );
  return new Map(await Promise.all(entries));
}

/** Returns the changes that assign tickets to a match. Tickets without a seat stay as they are. */
export function assign(
  match: Pick<Match, "id">,
  tickets: readonly Stored<Ticket>[],
  seats: Seats,
): Change[] {
  return tickets.flatMap((ticket) => {
    const { id } = ticket.value;
    const assignment = seats.get(id);
    if (assignment === undefined) {
      return [];
    }
    const seated = { state: "assigned", matchId: match.id, assignment, reason: undefined } as const;
    return [put("ticket", id, ticket, { ...ticket.value, ...seated })];
  });
}

/** Returns all tickets of a match. */
export function rosterOf({ teams }: Pick<Match, "teams">): string[] {
  return teams.flatMap(({ tickets }) => tickets);
}

/** Returns the number of agents that a ticket of a match is for. */
export function partySizeIn({ parties = {} }: Pick<Match, "parties">, ticketId: string): number {
  // Agents may choose the IDs of their tickets, such as "constructor", which is a property of every object.
  return Object.hasOwn(parties, ticketId) ? (parties[ticketId] ?? 1) : 1;
}

/** Returns the number of seats of the given tickets of a match. */
export function seatsOf(match: Pick<Match, "parties">, tickets: readonly string[]): number {
  return tickets.reduce((sum, id) => sum + partySizeIn(match, id), 0);
}

/** Returns the property `parties` of a match: the parties in `known`, and the parties among `tickets`. */
export function partiesOf(
  tickets: readonly Pick<Ticket, "id" | "partySize">[],
  known: Match["parties"] = {},
): Pick<Match, "parties"> {
  // Not `parties[id] = …`, which sets no property for the ID "__proto__".
  const parties = Object.fromEntries([
    ...Object.entries(known),
    ...tickets.flatMap(({ id, partySize = 1 }) =>
      partySize > 1 ? [[id, partySize] as const] : [],
    ),
  ]);
  return Object.keys(parties).length === 0 ? {} : { parties };
}

/** Emits the `assigned` event of a match. */
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
