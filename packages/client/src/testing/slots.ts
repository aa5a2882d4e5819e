// SPDX-License-Identifier: Apache-2.0
import { t } from "@dm-env-rpc/tensor-codec";
import type { DynamicAction, DynamicObservation } from "../environment/definition.ts";
import { type BatchSlots, type SlotFactory, type SlotRequest, vectorize } from "../vector/index.ts";
import { connected, type Script, type ScriptedServer } from "./scripted-server.ts";

const observations = {
  tick: t.int32(),
  board: t.uint8([2]),
  me: { hp: t.float64() },
  reward: t.float32(),
};

function observe(slot: number) {
  return (name: string, tick: number): unknown =>
    ({ tick, board: [slot, tick], "me.hp": slot + tick / 10, reward: slot + 1 })[name];
}

/** Creates a factory of slots on scripted servers; `servers` lists the servers in the order of their start. */
export function scripted(script: (slot: number) => Script = () => ({})) {
  const servers: ScriptedServer[] = [];
  const requests: SlotRequest[] = [];
  const factory: SlotFactory<DynamicAction, DynamicObservation> = async (request) => {
    requests.push(request);
    const { slot } = request;
    const made = await connected({ observations, observe: observe(slot), ...script(slot) });
    servers.push(made.server);
    return await made.connection.join("world");
  };
  return { factory, servers, requests };
}

/**
 * Creates a factory that joins the slots of each server as one batch. The batches are vectors of scripted
 * slots.
 *
 * @param refuse Called for each batch: throws, or returns true if its server does not support batches.
 */
export function batching(
  count: number,
  script: (slot: number) => Script = () => ({}),
  refuse: (request: BatchSlots) => boolean = () => false,
) {
  const { factory, servers, requests } = scripted(script);
  const joined: BatchSlots[] = [];
  const joinBatch = async (request: BatchSlots) => {
    joined.push(request);
    if (refuse(request)) {
      return undefined;
    }
    const { slots, autoresetMode, buffers, signal } = request;
    const factories = slots.map((slot) => (made: SlotRequest) => factory({ ...made, slot }));
    return await vectorize(factories, { autoresetMode, buffers, signal, restart: "never" });
  };
  const slots = Object.assign(((request) => factory(request)) satisfies typeof factory, {
    servers: count,
    joinBatch,
  });
  return { slots, joined, servers, requests };
}

/** Returns an action for each slot. */
export const moves = (count: number) => Array.from({ length: count }, () => ({ move: 1 }));
/** Returns a column of flags. */
export const flags = (...values: number[]) => new Uint8Array(values);
