// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, isDmEnvRpcError, type PackedTensor, t } from "@dm-env-rpc/tensor-codec";
import type { ThreadShare, TurnKey } from "@dm-env-rpc/transport/internal";
import { readSettings } from "../definition/settings.ts";
import type { HostedWorld, Joined } from "../engine/hosted-world.ts";
import type { Done, PackedSettings } from "../engine/requests.ts";
import { clientError } from "../engine/responses.ts";
import type { Seat } from "../engine/state.ts";
import type { Place } from "./place.ts";
import { RowSpecs } from "./row-specs.ts";
import { Rows } from "./rows.ts";

/** The join setting that requests several seats. */
export const seatsSetting = "seats";

/**
 * Returns true if one stream can have several seats in a world: its agents share the world, and it
 * does not declare a setting `seats`.
 */
export function takesSeats({ definition }: HostedWorld): boolean {
  const { perAgent, joinSettings = {} } = definition;
  return perAgent !== true && !Object.hasOwn(joinSettings, seatsSetting);
}

/**
 * @throws DmEnvRpcError, TensorError if the setting is not a number of seats of at least 1, or is
 * more than 1 with a join token.
 */
export function readSeats(packed: PackedTensor, token: string | undefined): number {
  const specs = { [seatsSetting]: t.int32({ min: 1 }) };
  const { seats } = readSettings(specs, new Map([[seatsSetting, packed]]), "join", false);
  if (token !== undefined && seats !== 1) {
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `a join token is for one seat: expected a "${seatsSetting}" of 1 or none, received ${seats}; join on one stream per token`,
    );
  }
  return seats;
}

/** Options of `joinRows`. */
export interface JoinRowsOptions {
  /** Number of seats. */
  readonly count: number;
  readonly maxElements: number;
  readonly share: ThreadShare;
  /** Key of the peer, which takes turns with others. */
  readonly key: TurnKey;
  /** Returns false once the stream has closed. No further seat joins then. */
  readonly isWanted: () => boolean;
}

/**
 * Joins a world with several seats, one after the other; if one is refused, none is joined. Many joins take several
 * turns of the event loop.
 *
 * @param onLeft Called once, when all seats have left the world. If one is removed, the others
 * leave.
 */
export function joinRows(
  world: HostedWorld,
  settings: PackedSettings,
  { count, maxElements, share, key, isWanted }: JoinRowsOptions,
  onLeft: Seat["onLeft"],
  done: Done<Place>,
): void {
  const joined: Joined[] = [];
  let specs: RowSpecs | undefined;
  let gone = 0;
  let reason: DmEnvRpcError | undefined;
  /** True until all seats have joined. */
  let isJoining = true;
  const left = (why: DmEnvRpcError | undefined): void => {
    gone += 1;
    reason ??= why;
    if (isJoining) {
      return;
    }
    if (gone === count) {
      onLeft(reason);
    } else if (gone === 1) {
      leaveAll();
    }
  };
  const leaveAll = (): void => {
    for (const { world: of, seat } of joined) {
      of.leave(seat, () => {});
    }
  };
  const refuse = (error: DmEnvRpcError): void => {
    leaveAll();
    done(error);
  };
  const next = (): void => {
    if (gone > 0) {
      refuse(reason ?? new DmEnvRpcError("CANCELLED", "a seat was left before all had joined"));
      return;
    }
    if (!isWanted()) {
      refuse(new DmEnvRpcError("CANCELLED", "the stream closed before all seats had joined"));
      return;
    }
    const [first] = joined;
    if (joined.length === count && first !== undefined && specs !== undefined) {
      const seats = joined.map(({ seat }) => seat);
      isJoining = false;
      done(new Rows(first.world, seats, specs, maxElements));
      return;
    }
    world.join(settings, left, (result) => {
      if (isDmEnvRpcError(result)) {
        refuse(result);
        return;
      }
      joined.push(result);
      try {
        specs ??= new RowSpecs(result.seat.specs, count, maxElements);
        specs.check(result.seat.specs);
      } catch (error) {
        refuse(clientError(error));
        return;
      }
      share.count();
      if (joined.length < count && share.isOver) {
        share.wait(key, next);
      } else {
        next();
      }
    });
  };
  next();
}
