// SPDX-License-Identifier: Apache-2.0
import {
  DmEnvRpcError,
  isDmEnvRpcError,
  type PackedTensor,
  type Settings,
  type Specs,
} from "@dm-env-rpc/tensor-codec";
import { type ConnectOptions, connect, connectionCodecs } from "../connection/connect.ts";
import { sameSettings } from "../environment/batch/same-settings.ts";
import type { ActionOf, NameOf, ObservationOf } from "../environment/definition.ts";
import type { JoinOptions } from "../environment/environment.ts";
import { isRefusal } from "../stream/faults.ts";
import type { BatchFactory, BatchSlots, SlotRequest } from "./vectorize-options.ts";

/** Options of `remoteSlots`. */
export interface RemoteSlotOptions<A extends Specs, O extends Specs, N extends NameOf<O>>
  extends Omit<JoinOptions<A, O, N>, "signal" | "settings" | "destroyOnClose"> {
  /**
   * The world that all slots join. Default: each slot or batch creates its own world and destroys it
   * when it is closed.
   */
  readonly world?: string | undefined;
  /** Settings of the world that a slot or batch creates. Default: none. */
  readonly createSettings?: ((request: SlotRequest) => Settings) | undefined;
  /** Settings of a slot's agent. Default: none. */
  readonly joinSettings?: ((request: SlotRequest) => Settings) | undefined;
  /** Options of the connections. */
  readonly connect?: Omit<ConnectOptions, "signal"> | undefined;
}

/**
 * Creates a factory of slots on one server, or round-robin on several. Each slot, or each batch of slots
 * that `vectorize` joins, has its own connection and, by default, its own world.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT if the list of addresses is empty.
 */
export function remoteSlots<
  A extends Specs = Specs,
  O extends Specs = Specs,
  const N extends NameOf<O> = never,
>(
  addresses: string | readonly string[],
  options: RemoteSlotOptions<A, O, N> = {},
): BatchFactory<ActionOf<A>, ObservationOf<O, N>> {
  const all = typeof addresses === "string" ? [addresses] : addresses;
  if (all.length === 0) {
    throw new DmEnvRpcError("INVALID_ARGUMENT", "expected at least one address, received none", {
      origin: "client",
    });
  }
  const { createSettings, joinSettings, connect: connecting, world: shared, ...join } = options;
  // All slots share one codec, because their messages have the same layouts.
  const codecs = connectionCodecs();
  const open = (server: number, signal: AbortSignal) =>
    connect(all[server] as string, { codecs, ...connecting, signal });
  const make = async (request: SlotRequest) => {
    const { slot, signal, buffers } = request;
    const connection = await open(slot % all.length, signal);
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
  const joinBatch = async ({ server, slots, seed: first, signal, ...rest }: BatchSlots) => {
    const { reward, discount, changedSpecs, tensors, ...plain } = join;
    const isPlain = [reward, discount, changedSpecs, tensors].every((one) => one === undefined);
    const requests = slots.map((slot) => ({
      ...{ slot, signal, restarts: 0, buffers: rest.buffers },
      seed: first === undefined ? undefined : first + BigInt(slot),
    }));
    const created = oneOf(
      requests.map((one) => (shared === undefined ? createSettings?.(one) : undefined)),
    );
    const joined = oneOf(requests.map((one) => joinSettings?.(one)));
    if (!isPlain || created === undefined || created.seed !== undefined) {
      return undefined;
    }
    if (joined === undefined) {
      return undefined;
    }
    const connection = await open(server, signal);
    let world: string | undefined;
    try {
      const { as } = join;
      world = shared ?? (await connection.createWorld({ as, settings: created.settings, signal }));
      const batch = await connection.join<A, O, N>(world, {
        ...plain,
        ...rest,
        batch: slots.length,
        seed: joined.seed,
        settings: joined.settings,
        destroyOnClose: shared === undefined,
        closeConnection: true,
        signal,
      });
      return batch;
    } catch (error) {
      if (world !== undefined && shared === undefined && cannotBatch(error)) {
        await connection.destroyWorld(world, { signal });
      }
      await connection.close();
      if (cannotBatch(error)) {
        return undefined;
      }
      throw error;
    }
  };
  return Object.assign(make, { servers: all.length, joinBatch });
}

/** Returns true if an error means that the server does not support batches, or refuses this one. */
function cannotBatch(error: unknown): boolean {
  const isUnknown =
    isDmEnvRpcError(error) && error.origin === "client" && error.code === "UNIMPLEMENTED";
  return isRefusal(error) || isUnknown;
}

/**
 * Returns the settings that all slots share, and the seeds, in which they may differ; undefined if the
 * slots differ in anything else.
 */
function oneOf(
  all: readonly (Settings | undefined)[],
): { readonly settings: Settings; readonly seed: readonly bigint[] | undefined } | undefined {
  const { seed: _first, ...settings } = all[0] ?? {};
  const seeds: bigint[] = [];
  for (const one of all) {
    const { seed, ...others } = one ?? {};
    const value = seed === undefined ? undefined : seedOf(seed);
    if (value !== undefined) {
      seeds.push(value);
    }
    if ((seed !== undefined && value === undefined) || !sameSettings(settings, others)) {
      return undefined;
    }
  }
  if (seeds.length > 0 && seeds.length < all.length) {
    return undefined;
  }
  return { settings, seed: seeds.length > 0 ? seeds : undefined };
}

/** Returns a seed as a bigint; undefined if it is not an integer. */
function seedOf(seed: NonNullable<Settings[string]>): bigint | undefined {
  const value = typeof seed === "object" && "data" in seed ? (seed as PackedTensor).data[0] : seed;
  const isInteger = typeof value === "bigint" || Number.isSafeInteger(value);
  return isInteger ? BigInt.asUintN(64, BigInt(value as bigint | number)) : undefined;
}
