// SPDX-License-Identifier: Apache-2.0
import type { JoinWorldRequest } from "@dm-env-rpc/protocol";
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Peer } from "@dm-env-rpc/transport";
import type { Done, Joined } from "../engine/hosted-world.ts";
import { type TensorLimits, unpackSettings } from "../engine/tensor-limits.ts";
import {
  joinTokenSetting,
  shownToken,
  type TakenSeat,
  type TakeSeat,
} from "../host/join-tokens.ts";
import type { WorldRegistry } from "../host/world-registry.ts";

/** What a join needs of the server. */
export interface JoiningHost extends TensorLimits {
  readonly registry: WorldRegistry;
  readonly takeSeat: TakeSeat;
}

/** An agent that is in a world, and the seat that its token was for. */
export interface Admitted extends Joined {
  readonly taken: TakenSeat;
}

/**
 * Joins a world: takes the seat that the token is for, then asks the world.
 *
 * @returns Gives up waiting for the seat.
 * @throws DmEnvRpcError, TensorError what the client is told at once.
 */
export function joinWorld(
  { worldName, settings }: JoinWorldRequest,
  host: JoiningHost,
  peer: Peer,
  done: Done<Admitted>,
): () => void {
  const world = host.registry.get(worldName);
  const rest = new Map(unpackSettings(settings, host));
  const token = shownToken(rest.get(joinTokenSetting), peer);
  rest.delete(joinTokenSetting);
  return host.takeSeat(token, world.name, (taken) => {
    if (isDmEnvRpcError(taken)) {
      done(taken);
      return;
    }
    world.join(rest, (result) => {
      if (!isDmEnvRpcError(result)) {
        done({ ...result, taken });
        return;
      }
      taken.giveBack();
      done(result);
    });
  });
}

/** What a connection is told that asks for something of a world, and is in none. */
export function notJoined(what: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "FAILED_PRECONDITION",
    `a ${what} needs a world, and this connection has joined none; send a JoinWorldRequest first`,
  );
}

/** What a connection is told that joins, and is in a world. */
export function joinedAlready(worldName: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "FAILED_PRECONDITION",
    `this connection has joined the world "${worldName}" already; leave it first, or join from another connection`,
  );
}
