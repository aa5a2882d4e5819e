// SPDX-License-Identifier: Apache-2.0
import { shorten } from "@dm-env-rpc/transport/internal";
import { invalid } from "../errors/errors.ts";
import type { MatchFunction, WaitingTicket } from "./match-function.ts";
import { areSolos, PartyQueue } from "./parties.ts";
import { checkCount, type FunctionReader } from "./profile-function.ts";

/** One team of a match. */
export interface TeamSize {
  readonly name: string;
  /** Name of the pool that its tickets are taken from. */
  readonly pool: string;
  /** The number of its agents. */
  readonly size: number;
}

/**
 * Fills each team with tickets from the team's pool, in matching order. A ticket in several pools is matched once, and
 * the agents of a party play in one team.
 */
export function teams(sizes: readonly TeamSize[]): MatchFunction {
  return function* ({ pools }) {
    const used = new Set<string>();
    if (![...pools.values()].every(areSolos)) {
      const queues = new Map([...pools].map(([name, all]) => [name, new PartyQueue(all, used)]));
      for (;;) {
        const match: Record<string, WaitingTicket[]> = {};
        for (const { name, pool, size } of sizes) {
          const team = queues.get(pool)?.take(size);
          if (team === undefined) {
            return;
          }
          match[name] = team;
        }
        yield { teams: match };
      }
    }
    const positions = new Map<string, number>();
    /** Returns the next ticket of a pool that is in no team yet. */
    const next = (pool: string): WaitingTicket | undefined => {
      const tickets = pools.get(pool) ?? [];
      for (let at = positions.get(pool) ?? 0; at < tickets.length; at++) {
        const ticket = tickets[at];
        positions.set(pool, at + 1);
        if (ticket !== undefined && !used.has(ticket.id)) {
          return ticket;
        }
      }
      return undefined;
    };
    for (;;) {
      const match: Record<string, WaitingTicket[]> = {};
      for (const { name, pool, size } of sizes) {
        const team: WaitingTicket[] = [];
        while (team.length < size) {
          const ticket = next(pool);
          if (ticket === undefined) {
            return;
          }
          used.add(ticket.id);
          team.push(ticket);
        }
        match[name] = team;
      }
      yield { teams: match };
    }
  };
}

/** Reads `teams` of a profile. */
export const readTeams: FunctionReader<"teams"> = ({ teams: sizes }, profile) => {
  const pools = new Set(profile.pools.map(({ name }) => name));
  if (sizes.length === 0) {
    throw invalid("teams", "at least one team", "none");
  }
  const names = new Set<string>();
  for (const { name, pool, size } of sizes) {
    checkCount(`size of team "${shorten(name)}"`, size);
    if (name === "" || names.has(name)) {
      throw invalid("teams", "a unique name for each team", `"${shorten(name)}"`);
    }
    if (!pools.has(pool)) {
      const known = [...pools].map((known) => `"${known}"`).join(", ");
      throw invalid(`pool of team "${name}"`, `one of ${known}`, `"${shorten(pool)}"`);
    }
    names.add(name);
  }
  const seats = sizes.reduce((sum, { size }) => sum + size, 0);
  checkCount("sum of the teams' sizes", seats);
  const poolOfTeam = new Map(sizes.map(({ name, pool }) => [name, pool]));
  const roleOfTeam = new Map(sizes.map(({ name, role }) => [name, role]));
  const largestParty = Math.max(...sizes.map(({ size }) => size));
  return {
    match: { isCustom: false, run: teams(sizes) },
    seats,
    largestParty,
    poolOfTeam,
    roleOfTeam,
  };
};
