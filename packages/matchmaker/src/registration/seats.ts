// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { JoinClaims, TokenVerifier } from "../tokens/verifier.ts";

/** A seat that an agent has shown the token of. */
export interface Seat {
  readonly claims: JoinClaims;
  /** The agent has left. Its token opens nothing any more. Idempotent. */
  leave(): void;
  /** The agent never was in: the world refused it. Its token may be used again. */
  giveBack(): void;
}

/** The seats of a server's worlds: each is taken once. */
export interface Seats {
  /**
   * Takes the seat that a token is for.
   *
   * @param token From the metadata `authorization: Bearer` or the join setting `join_token`.
   * @throws DmEnvRpcError UNAUTHENTICATED without a token, with a forged or an expired one;
   * PERMISSION_DENIED for another world or server, or when the seat has been taken; UNAVAILABLE before
   * the matchmaker has been reached.
   */
  take(token: string | undefined, worldName: string): Promise<Seat>;
  /** Whose agents are in a world. */
  ticketsIn(worldName: string): readonly string[];
  /** Whose agents have left a world, since that was last told to the matchmaker. */
  leftFrom(worldName: string): readonly string[];
}

/** Most seats that are remembered as taken, until their tokens expire. */
const maxRemembered = 100_000;

/** Seats whose leavers are forgotten once they have been told. */
export interface ReportedSeats extends Seats {
  /** Forgets those who had left a world by then. */
  told(worldName: string, tickets: readonly string[]): void;
}

/** @param onChange Called after a seat is taken or left. */
export function createSeats(
  verifier: TokenVerifier,
  now: () => number,
  onChange: () => void,
): ReportedSeats {
  /** Seats that were taken: of those that were left too, until nobody could use the token any more. */
  const taken = new Map<string, number>();
  const inside = new Map<string, Map<string, string>>();
  const left = new Map<string, string[]>();

  const sweep = (): void => {
    if (taken.size < maxRemembered) return;
    const nowMs = now();
    for (const [seatId, expiresMs] of taken) if (expiresMs < nowMs) taken.delete(seatId);
  };
  const remove = ({ worldName, seatId, ticketId }: JoinClaims, hasPlayed: boolean): void => {
    const world = inside.get(worldName);
    if (world?.delete(seatId) !== true) return;
    if (world.size === 0) inside.delete(worldName);
    if (hasPlayed) left.set(worldName, [...(left.get(worldName) ?? []), ticketId]);
    onChange();
  };

  return {
    async take(token, worldName) {
      const claims = await verifier.join(token, worldName);
      // No await from here on: of two that show the same token one is first.
      if (taken.has(claims.seatId)) {
        throw new DmEnvRpcError(
          "PERMISSION_DENIED",
          "the seat of this join token has been taken; each is taken once: create another ticket",
        );
      }
      sweep();
      taken.set(claims.seatId, claims.expiresMs);
      const world = inside.get(worldName) ?? new Map<string, string>();
      inside.set(worldName, world.set(claims.seatId, claims.ticketId));
      onChange();
      return {
        claims,
        leave: () => remove(claims, true),
        giveBack: () => {
          taken.delete(claims.seatId);
          remove(claims, false);
        },
      };
    },
    ticketsIn: (worldName) => [...(inside.get(worldName)?.values() ?? [])],
    leftFrom: (worldName) => left.get(worldName) ?? [],
    told(worldName, tickets) {
      const rest = (left.get(worldName) ?? []).filter((ticket) => !tickets.includes(ticket));
      if (rest.length === 0) left.delete(worldName);
      else left.set(worldName, rest);
    },
  };
}
