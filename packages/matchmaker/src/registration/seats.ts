// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { MatchDatum } from "../model.ts";
import type { JoinClaims, TokenVerifier } from "../tokens/verifier.ts";
import { ExpiringKeys } from "./expiring-keys.ts";

/** A seat that an agent has taken with its join token. */
export interface Seat {
  readonly claims: JoinClaims;
  /** Unique key of this seat. */
  readonly key: string;
  /** Join settings of the seat: `team`, `role`, `match_id` and the data of the match. */
  readonly settings: Readonly<Record<string, MatchDatum>>;
  /** The span that assigned the seat; undefined if it is not traced. */
  readonly traceparent?: string | undefined;
  /**
   * Keeps the seat for an agent whose stream was lost. The agent's token admits it one more time, even if the
   * token has expired.
   */
  hold(): void;
  /** Records that the agent has left. Its token is then no longer valid. Idempotent. */
  leave(): void;
  /**
   * Releases the seat of an agent that the world refused. The token may be used again. If a report has
   * already shown the seat as taken, later reports also show it as taken until the token expires.
   */
  giveBack(): void;
}

/** The seats of a server's worlds. A seat that was taken can be taken again only if it was held or given back. */
export interface Seats {
  /**
   * Takes the seat of a token.
   *
   * @param token From the metadata `authorization: Bearer` or the join setting `join_token`.
   * @throws DmEnvRpcError UNAUTHENTICATED if the token is missing, forged or expired.
   * @throws DmEnvRpcError PERMISSION_DENIED if the token is for another world or server, or if its seat has
   *   been taken.
   * @throws DmEnvRpcError UNAVAILABLE before the first contact with the matchmaker.
   */
  take(token: string | undefined, worldName: string): Promise<Seat>;
  /** Returns the tickets whose agents are in a world, or may still return to that world. */
  ticketsIn(worldName: string): readonly string[];
  /** Returns the tickets of agents that have left a world since the last report. */
  leftFrom(worldName: string): readonly string[];
}

/** Seats, with the functions that reports need. */
export interface ReportedSeats extends Seats {
  /** Returns the number of agents that have taken a seat in a world. Each agent of a party counts. */
  agentsIn(worldName: string): number;
  /** Forgets the reported departures from a world. */
  told(worldName: string, tickets: readonly string[]): void;
  /**
   * For each world that is not in `worldNames`, forgets the departures and the seats that are reserved for
   * refused agents.
   */
  keep(worldNames: ReadonlySet<string>): void;
}

/** More time than the verification of a token takes. */
const verificationMs = 60_000;

interface Holder {
  readonly ticketId: string;
  /** True after a report has contained the seat: the matchmaker may then know that the seat is taken. */
  readonly isKnown: boolean;
  /** True while the world holds the seat for an agent whose stream was lost. */
  readonly isHeld?: boolean;
  /** If the world refused the seat's agent: the time until which the seat stays reserved. */
  readonly keptMs: number | undefined;
}

/**
 * Creates the seats of a server's worlds.
 *
 * @param onChange Called after a seat is taken or left.
 */
export function createSeats(
  verifier: TokenVerifier,
  now: () => number,
  onChange: () => void,
): ReportedSeats {
  /** Seats that have been taken, also if their agents have left. Each is kept at least until its token expires. */
  const taken = new ExpiringKeys(now);
  const inside = new Map<string, Map<string, Holder>>();
  const left = new Map<string, string[]>();
  /** Seats that agents of parties have left, by world and ticket. A party leaves with its last agent. */
  const leftOfParties = new Map<string, Map<string, Set<string>>>();

  const empty = (worldName: string, seatId: string): boolean => {
    const world = inside.get(worldName);
    if (world?.delete(seatId) !== true) {
      return false;
    }
    if (world.size === 0) {
      inside.delete(worldName);
    }
    return true;
  };
  const hasLeft = ({ worldName, seatId, ticketId, partySize }: JoinClaims): boolean => {
    if (partySize === 1) {
      return true;
    }
    const parties = leftOfParties.get(worldName) ?? new Map<string, Set<string>>();
    const seats = parties.get(ticketId) ?? new Set();
    seats.add(seatId);
    leftOfParties.set(worldName, parties.set(ticketId, seats));
    return seats.size === partySize;
  };
  const leave = (claims: JoinClaims): void => {
    const { worldName, seatId, ticketId } = claims;
    if (!empty(worldName, seatId)) {
      return;
    }
    if (hasLeft(claims)) {
      leftOfParties.get(worldName)?.delete(ticketId);
      left.set(worldName, [...(left.get(worldName) ?? []), ticketId]);
    }
    onChange();
  };
  const hold = ({ worldName, seatId }: JoinClaims): void => {
    const holder = inside.get(worldName)?.get(seatId);
    if (holder !== undefined) {
      inside.get(worldName)?.set(seatId, { ...holder, isHeld: true });
    }
  };
  const giveBack = ({ worldName, seatId, expiresMs }: JoinClaims): void => {
    taken.delete(seatId);
    const holder = inside.get(worldName)?.get(seatId);
    if (holder?.isKnown === true) {
      inside.get(worldName)?.set(seatId, { ...holder, keptMs: expiresMs });
    } else if (empty(worldName, seatId)) {
      onChange();
    }
  };

  return {
    async take(token, worldName) {
      const isHeld = (seatId: string): boolean =>
        inside.get(worldName)?.get(seatId)?.isHeld === true;
      const claims = await verifier.join(token, worldName, isHeld);
      // Without an await from here on, only one of two agents with the same token can take the seat.
      if (taken.has(claims.seatId) && !isHeld(claims.seatId)) {
        throw takenSeat(inside.get(worldName)?.has(claims.seatId) === true);
      }
      // The token of a held seat may have expired. Another agent with this token may have been verified before the seat
      // was taken.
      taken.add(claims.seatId, Math.max(claims.expiresMs, now() + verificationMs));
      const world = inside.get(worldName) ?? new Map<string, Holder>();
      const isKnown = world.get(claims.seatId)?.isKnown ?? false;
      const holder = { ticketId: claims.ticketId, isKnown, keptMs: undefined };
      inside.set(worldName, world.set(claims.seatId, holder));
      onChange();
      const { team, role, data } = claims.part;
      return {
        claims,
        key: claims.seatId,
        settings: { ...data, team, role, match_id: claims.matchId },
        traceparent: claims.traceparent,
        hold: () => hold(claims),
        leave: () => leave(claims),
        giveBack: () => giveBack(claims),
      };
    },
    ticketsIn(worldName) {
      const nowMs = now();
      for (const [seatId, holder] of inside.get(worldName) ?? []) {
        if (holder.keptMs !== undefined && holder.keptMs <= nowMs) {
          empty(worldName, seatId);
        } else {
          inside.get(worldName)?.set(seatId, { ...holder, isKnown: true });
        }
      }
      const holders = inside.get(worldName)?.values() ?? [];
      return [...new Set([...holders].map(({ ticketId }) => ticketId))];
    },
    agentsIn(worldName) {
      const holders = [...(inside.get(worldName)?.values() ?? [])];
      return holders.filter(({ keptMs }) => keptMs === undefined).length;
    },
    leftFrom: (worldName) => left.get(worldName) ?? [],
    told(worldName, tickets) {
      const rest = (left.get(worldName) ?? []).filter((ticket) => !tickets.includes(ticket));
      if (rest.length === 0) {
        left.delete(worldName);
      } else {
        left.set(worldName, rest);
      }
    },
    keep(worldNames) {
      for (const worlds of [left, leftOfParties]) {
        for (const name of worlds.keys()) {
          if (!worldNames.has(name)) {
            worlds.delete(name);
          }
        }
      }
      for (const [name, holders] of inside) {
        if (worldNames.has(name)) {
          continue;
        }
        for (const [seatId, { keptMs }] of holders) {
          if (keptMs !== undefined) {
            empty(name, seatId);
          }
        }
      }
    },
  };
}

/**
 * Creates the error for a token whose seat is not free.
 *
 * @param isInside True if the seat's agent has not left the world, as far as the server knows: the server may not have
 *   noticed yet that the agent's connection is lost.
 */
function takenSeat(isInside: boolean): DmEnvRpcError {
  const [holder, remedy] = isInside
    ? [
        " by an agent that is still in the world",
        "if that agent has lost its connection and the world has onDrop, try again: the server notices the loss within twice its pingIntervalMs (by default, within 60 s) and then admits the agent; otherwise create another ticket",
      ]
    : ["", "create another ticket"];
  return new DmEnvRpcError(
    "PERMISSION_DENIED",
    `join token: expected a token whose seat is free, received a token whose seat has been taken${holder}; ${remedy}`,
  );
}
