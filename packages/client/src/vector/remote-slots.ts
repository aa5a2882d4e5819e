// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, type Settings, type Specs } from "@dm-env-rpc/tensor-codec";
import { type ConnectOptions, connect, connectionCodecs } from "../connection/connect.ts";
import type { ActionOf, NameOf, ObservationOf } from "../environment/definition.ts";
import type { JoinOptions } from "../environment/environment.ts";
import type { SlotFactory, SlotRequest } from "./vectorize-options.ts";

/** How slots join worlds of servers. */
export interface RemoteSlotOptions<A extends Specs, O extends Specs, N extends NameOf<O>>
  extends Omit<JoinOptions<A, O, N>, "signal" | "settings" | "destroyOnClose"> {
  /** The world that all slots join. Default: each slot creates a world of its own, and destroys it. */
  readonly world?: string | undefined;
  /** Settings of a slot's own world. Default: none. */
  readonly createSettings?: ((request: SlotRequest) => Settings) | undefined;
  /** Settings of a slot's agent. Default: none. */
  readonly joinSettings?: ((request: SlotRequest) => Settings) | undefined;
  /** How to connect. */
  readonly connect?: Omit<ConnectOptions, "signal"> | undefined;
}

/**
 * Makes slots of agents on one server or, in turns, on several: each with a connection, and by
 * default a world, of its own.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT without any address.
 */
export function remoteSlots<
  A extends Specs = Specs,
  O extends Specs = Specs,
  const N extends NameOf<O> = never,
>(
  addresses: string | readonly string[],
  options: RemoteSlotOptions<A, O, N> = {},
): SlotFactory<ActionOf<A>, ObservationOf<O, N>> {
  const all = typeof addresses === "string" ? [addresses] : addresses;
  if (all.length === 0) {
    throw new DmEnvRpcError("INVALID_ARGUMENT", "expected at least one address, received none", {
      origin: "client",
    });
  }
  const { createSettings, joinSettings, connect: connecting, world: shared, ...join } = options;
  // One codec for all slots: their messages share layouts.
  const codecs = connectionCodecs();
  return async (request) => {
    const { slot, signal, buffers } = request;
    const connection = await connect(all[slot % all.length] as string, {
      codecs,
      ...connecting,
      signal,
    });
    try {
      const world =
        shared ??
        (await connection.createWorld({
          as: join.as,
          settings: createSettings?.(request),
          signal,
        }));
      return await connection.join<A, O, N>(world, {
        ...(buffers === "reuse" ? { tensors: buffers } : {}),
        ...join,
        settings: joinSettings?.(request),
        destroyOnClose: shared === undefined,
        signal,
      });
    } catch (error) {
      await connection.close();
      throw error;
    }
  };
}
