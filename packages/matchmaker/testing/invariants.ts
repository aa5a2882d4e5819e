// SPDX-License-Identifier: Apache-2.0
import type { Kind, Records } from "../src/model/model.ts";
import type { Position, Store } from "../src/store/store.ts";
import type { SimulatedServers } from "./simulated-servers.ts";

/** Returns all records of a store, by kind and id. */
export async function recordsOf(
  store: Store,
): Promise<{ readonly [K in Kind]: Map<string, Records[K]> }> {
  const tables = {
    profile: new Map(),
    server: new Map(),
    report: new Map(),
    world: new Map(),
    match: new Map(),
    ticket: new Map(),
    secret: new Map(),
  };
  let position: Position | undefined;
  for (let more = true; more; ) {
    const page = await store.changes(position, 1_000);
    for (const { kind, id, value } of page.entries) {
      if (value === undefined) {
        tables[kind].delete(id);
      } else {
        tables[kind].set(id, value);
      }
    }
    ({ position, more } = page);
  }
  return tables;
}

/**
 * Checks the invariants that hold between any two commits of a store.
 *
 * @returns Violations.
 */
export async function violations(store: Store, servers: SimulatedServers): Promise<string[]> {
  const { ticket, match, world, server } = await recordsOf(store);
  const found: string[] = [];
  const matchOf = new Map<string, string>();
  for (const { id, teams, worldId, held = {} } of match.values()) {
    if (world.get(worldId)?.matchId !== id) {
      found.push(`match ${id} has no world`);
    }
    for (const ticketId of teams.flatMap(({ tickets }) => tickets)) {
      const other = matchOf.get(ticketId);
      if (other !== undefined) {
        found.push(`ticket ${ticketId} is in ${other} and in ${id}`);
      }
      matchOf.set(ticketId, id);
      // The ticket of a held seat may have been deleted.
      if (held[ticketId] === undefined && ticket.get(ticketId)?.matchId !== id) {
        found.push(`ticket ${ticketId} of match ${id} does not name the match`);
      }
    }
  }
  for (const { id, matchId, state, assignment } of ticket.values()) {
    const isSeated = state === "matched" || state === "assigned" || state === "joined";
    if (isSeated && matchOf.get(id) !== matchId) {
      found.push(`ticket ${id} is ${state}, but its match does not have it`);
    }
    if ((state === "assigned" || state === "joined") !== (assignment !== undefined)) {
      found.push(
        `ticket ${id} is ${state} ${assignment === undefined ? "without" : "with"} a seat`,
      );
    }
  }
  const names = new Set<string>();
  const seats = new Map<string, number>();
  const simulated = new Map([...servers.all.values()].map((each) => [each.id, each.worlds]));
  for (const { id, serverId, name, matchId, seats: count } of world.values()) {
    const { tickets, guests = 0 } = simulated.get(serverId)?.get(name ?? "") ?? {};
    const agents = (tickets?.size ?? 0) + guests;
    if (agents > count) {
      found.push(`world ${id} of ${count} seats has ${agents} agents`);
    }
    seats.set(serverId, (seats.get(serverId) ?? 0) + count);
    if (matchId !== undefined && !match.has(matchId)) {
      found.push(`world ${id} names a match that does not exist`);
    }
    if (name === undefined) {
      continue;
    }
    if (names.has(`${serverId}/${name}`)) {
      found.push(`world ${name} on ${serverId} has two records`);
    }
    names.add(`${serverId}/${name}`);
  }
  for (const [id, count] of seats) {
    const most = server.get(id)?.maxAgents ?? Number.POSITIVE_INFINITY;
    if (count > most) {
      found.push(`server ${id} has room for ${most} agents, and ${count} seats are placed`);
    }
    const placed = [...world.values()].filter(({ serverId }) => serverId === id).length;
    const worlds = server.get(id)?.maxWorlds ?? Number.POSITIVE_INFINITY;
    if (placed > worlds) {
      found.push(`server ${id} has room for ${worlds} worlds, and ${placed} are placed`);
    }
  }
  for (const { id, destroyed } of servers.all.values()) {
    for (const [name, times] of destroyed) {
      if (times > 1) {
        found.push(`world ${name} on ${id} was destroyed ${times} times`);
      }
    }
  }
  return found;
}
