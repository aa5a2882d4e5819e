// SPDX-License-Identifier: Apache-2.0
import type { JoinWorldRequest } from "@dm-env-rpc/protocol";
import { DmEnvRpcError, isDmEnvRpcError, pack } from "@dm-env-rpc/tensor-codec";
import type { Peer } from "@dm-env-rpc/transport";
import { type ThreadShare, turnKeyOf } from "@dm-env-rpc/transport/internal";
import { joinTokenSetting, seatKeySetting } from "../definition/reserved-settings.ts";
import { mayListWorlds, type Roles } from "../definition/roles.ts";
import type { Joined } from "../engine/hosted-world.ts";
import type { Done } from "../engine/requests.ts";
import { clientError } from "../engine/responses.ts";
import type { Seat } from "../engine/state.ts";
import { type TensorLimits, unpackSettings } from "../engine/tensor-limits.ts";
import { joinRows, readSeats, seatsSetting, takesSeats } from "./join-rows.ts";
import type { JoinTurns } from "./join-turns.ts";
import { type Place, SeatPlace } from "./place.ts";
import { readJoinToken, readSeatKey, type TakenSeat, type TakeSeat } from "./seat-tokens.ts";
import type { Worlds } from "./worlds.ts";

/** The server, as a join uses it. */
export interface JoiningHost extends TensorLimits {
  readonly worlds: Worlds;
  readonly share: ThreadShare;
  /** The joins with several seats. */
  readonly joinTurns: JoinTurns;
  readonly takeSeat: TakeSeat;
  /** True if agents join without a join token. */
  readonly canJoinWithoutToken: boolean;
}

/** The place of a stream in a world, and the seat of its token. */
export interface Admitted {
  readonly place: Place;
  readonly taken: TakenSeat;
}

/** Receives the outcome of a join. */
export interface JoinListener {
  readonly done: Done<Admitted>;
  readonly onLeft: Seat["onLeft"];
  /** Returns false once the stream has closed. */
  readonly isWanted: () => boolean;
}

/**
 * Joins a world: reserves the seat of the token, then joins.
 *
 * @returns A function that stops waiting for the seat.
 * @throws DmEnvRpcError, TensorError if the request is refused at once.
 */
export function joinWorld(
  { worldName, settings }: JoinWorldRequest,
  host: JoiningHost,
  peer: Peer,
  roles: Roles,
  { done, onLeft, isWanted }: JoinListener,
): () => void {
  const world = host.worlds.get(worldName, mayListWorlds(roles, host.canJoinWithoutToken));
  const rest = new Map(unpackSettings(settings, host));
  const token = readJoinToken(rest.get(joinTokenSetting), peer);
  const seatKey = readSeatKey(rest.get(seatKeySetting));
  rest.delete(joinTokenSetting);
  rest.delete(seatKeySetting);
  const hasSeveral = rest.has(seatsSetting) && takesSeats(world);
  // The seats of a stream with the setting `seats` are never resumed.
  return host.takeSeat(token, world.name, hasSeveral ? undefined : seatKey, (taken) => {
    if (isDmEnvRpcError(taken)) {
      done(taken);
      return;
    }
    try {
      for (const [name, value] of Object.entries(taken.settings ?? {})) {
        if (Object.hasOwn(world.definition.joinSettings ?? {}, name)) {
          rest.set(name, pack(value, { name: `${name} of the join token` }));
        }
      }
    } catch (error) {
      taken.giveBack();
      done(clientError(error));
      return;
    }
    const joined: Done<Place> = (place) => {
      if (isDmEnvRpcError(place)) {
        taken.giveBack();
        done(place);
      } else {
        done({ place, taken });
      }
    };
    const seats = rest.get(seatsSetting);
    if (seats === undefined || !takesSeats(world)) {
      const one: Done<Joined> = (result) =>
        joined(isDmEnvRpcError(result) ? result : new SeatPlace(result));
      world.join(rest, onLeft, one, taken.key ?? seatKey);
      return;
    }
    rest.delete(seatsSetting);
    try {
      const count = readSeats(seats, token);
      const { maxElements, share } = host;
      const key = turnKeyOf(peer.address);
      const options = { count, maxElements, share, key, isWanted };
      host.joinTurns.enter(world, key, (over) =>
        joinRows(world, rest, options, onLeft, (result) => {
          over();
          joined(result);
        }),
      );
    } catch (error) {
      joined(clientError(error));
    }
  });
}

/**
 * The errors of requests for the joined world on a connection that has not joined a world. All sessions share them,
 * because a flood causes thousands, and each new error costs a stack trace.
 */
export const notJoined: Readonly<Record<"step" | "reset", DmEnvRpcError>> = {
  step: needsWorld("step"),
  reset: needsWorld("reset"),
};

function needsWorld(what: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "FAILED_PRECONDITION",
    `a ${what} needs a world, but this connection has not joined one; send a JoinWorldRequest first`,
  );
}

/** Creates the error of a join on a connection that has already joined a world. */
export function joinedAlready(worldName: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "FAILED_PRECONDITION",
    `this connection has joined the world "${worldName}" already; leave it first, or join from another connection`,
  );
}
