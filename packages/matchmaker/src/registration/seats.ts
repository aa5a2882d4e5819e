// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { MatchDatum } from "../model/model.ts";
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

/**
 * The seats of a server's worlds. A seat that was taken can be taken again only if it was held or given back, or by its
 * agent, which proves itself by its `seat_key`.
 */
export interface Seats {
  /**
   * Takes the seat of a token.
   *
   * @param token From the metadata `authorization: Bearer` or the join setting `join_token`.
   * @param seatKey The join setting `seat_key`. If the agent of the seat has joined with the same key, it takes its seat
   *   again, although the loss of its earlier stream has not been noticed yet.
   * @throws DmEnvRpcError UNAUTHENTICATED if the token is missing, forged or expired.
   * @throws DmEnvRpcError PERMISSION_DENIED if the token is for another world or server, or if its seat has
   *   been taken.
   * @throws DmEnvRpcError UNAVAILABLE before the first contact with the matchmaker.
   */
  take(token: string | undefined, worldName: string, seatKey?: string): Promise<Seat>;
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

/** An agent that has taken a seat. */
interface Holder {
  readonly ticketId: string;
  /** The agent's `seat_key`; undefined if it has none. */
  readonly seatKey: string | undefined;
  /** True after a report has contained the seat: the matchmaker may then know that the seat is taken. */
  isKnown: boolean;
  /** True once the world holds the seat, because the agent's stream was lost. */
  isHeld: boolean;
  /** True once the agent has left the world, or has taken its seat again on another stream. */
  hasLeft: boolean;
  /** True once the world has refused the agent. */
  isRefused: boolean;
  /** The holder from whom the agent has taken its seat again; undefined if the seat was free or held. */
  before: Holder | undefined;
  /** If the world refused the seat's agent: the time until which the seat stays reserved. */
  keptMs: number | undefined;
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

  const empty = (worldName: string, seatId: string): void => {
    const world = inside.get(worldName);
    world?.delete(seatId);
    if (world?.size === 0) {
      inside.delete(worldName);
    }
  };
  /** Records that an agent has left. Returns true if it was the last one of its ticket. */
  const endsTicket = ({ worldName, seatId, ticketId, partySize }: JoinClaims): boolean => {
    if (partySize === 1) {
      return true;
    }
    const parties = leftOfParties.get(worldName) ?? new Map<string, Set<string>>();
    const seats = parties.get(ticketId) ?? new Set();
    seats.add(seatId);
    leftOfParties.set(worldName, parties.set(ticketId, seats));
    return seats.size === partySize;
  };
  const has = ({ worldName, seatId }: JoinClaims, holder: Holder): boolean =>
    inside.get(worldName)?.get(seatId) === holder;
  const leave = (claims: JoinClaims, holder: Holder): void => {
    const { worldName, seatId, ticketId } = claims;
    holder.hasLeft = true;
    holder.before = undefined; // The agent was in the world, so its predecessors no longer matter.
    if (!has(claims, holder)) {
      return;
    }
    empty(worldName, seatId);
    if (endsTicket(claims)) {
      leftOfParties.get(worldName)?.delete(ticketId);
      left.set(worldName, [...(left.get(worldName) ?? []), ticketId]);
    }
    onChange();
  };
  const giveBack = (claims: JoinClaims, holder: Holder): void => {
    const { worldName, seatId, expiresMs } = claims;
    holder.isRefused = true;
    if (!has(claims, holder)) {
      return;
    }
    const before = admittedOf(holder.before);
    if (before?.hasLeft === true) {
      leave(claims, holder);
      return;
    }
    if (before !== undefined) {
      before.isKnown = holder.isKnown;
      inside.get(worldName)?.set(seatId, before);
      return;
    }
    taken.delete(seatId);
    if (holder.isKnown) {
      holder.keptMs = expiresMs;
    } else {
      empty(worldName, seatId);
      onChange();
    }
  };

  return {
    async take(token, worldName, seatKey) {
      const mayReturn = (seatId: string): boolean => {
        const holder = inside.get(worldName)?.get(seatId);
        return holder !== undefined && (holder.isHeld || hasKey(holder, seatKey));
      };
      const claims = await verifier.join(token, worldName, mayReturn);
      // Without an await from here on, only one of two agents with the same token can take the seat.
      if (taken.has(claims.seatId) && !mayReturn(claims.seatId)) {
        throw takenSeat(inside.get(worldName)?.has(claims.seatId) === true);
      }
      // The token of a seat that is taken again may have expired. Another agent with this token may have been verified
      // before the seat was taken.
      taken.add(claims.seatId, Math.max(claims.expiresMs, now() + verificationMs));
      const world = inside.get(worldName) ?? new Map<string, Holder>();
      const known = world.get(claims.seatId);
      const before = known?.isHeld === false && known.keptMs === undefined ? known : undefined;
      const holder: Holder = {
        ticketId: claims.ticketId,
        seatKey,
        isKnown: known?.isKnown ?? false,
        isHeld: false,
        hasLeft: false,
        isRefused: false,
        before,
        keptMs: undefined,
      };
      inside.set(worldName, world.set(claims.seatId, holder));
      onChange();
      const { team, role, data } = claims.part;
      return {
        claims,
        key: claims.seatId,
        settings: { ...data, team, role, match_id: claims.matchId },
        traceparent: claims.traceparent,
        hold: () => {
          holder.isHeld = true;
        },
        leave: () => leave(claims, holder),
        giveBack: () => giveBack(claims, holder),
      };
    },
    ticketsIn(worldName) {
      const nowMs = now();
      for (const [seatId, holder] of inside.get(worldName) ?? []) {
        if (holder.keptMs !== undefined && holder.keptMs <= nowMs) {
          empty(worldName, seatId);
        } else {
          holder.isKnown = true;
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

/** Returns the first of a holder and its predecessors whose agent the world has not refused. */
function admittedOf(holder: Holder | undefined): Holder | undefined {
  let admitted = holder;
  while (admitted?.isRefused === true) {
    admitted = admitted.before;
  }
  return admitted;
}

/** Returns true if the agent that has a seat has joined with this `seat_key`. */
function hasKey(holder: Holder, seatKey: string | undefined): boolean {
  const isInside = holder.keptMs === undefined;
  return isInside && seatKey !== undefined && holder.seatKey === seatKey;
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
        "if that agent has lost its connection and the world has onDrop, try again: the server notices the loss within twice its pingIntervalMs (by default, within 60 s) and then admits the agent. An agent whose first join sent a seat_key, as joinMatch does with reconnect, is admitted at once with the same key. Otherwise create another ticket",
      ]
    : ["", "create another ticket"];
  return new DmEnvRpcError(
    "PERMISSION_DENIED",
    `join token: expected a token whose seat is free, received a token whose seat has been taken${holder}; ${remedy}`,
  );
}
