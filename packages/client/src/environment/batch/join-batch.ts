// SPDX-License-Identifier: Apache-2.0
import {
  DmEnvRpcError,
  type PackValue,
  pack,
  type Settings,
  type Specs,
  type TensorSpec,
  tensor,
} from "@dm-env-rpc/tensor-codec";
import type { EnvironmentDefinition, SpecsSource } from "../definition.ts";
import type { BatchJoinOptions, JoinOptions } from "../environment.ts";
import { nestSpecs, requestedObservations, type SpecTables } from "../join-specs.ts";

/** Observations of every slot beside those of its environment. */
const slotObservations = [
  "reward",
  "step_type",
  "terminated",
  "truncated",
  "episode_return",
  "episode_length",
  "slot_failures",
] as const;

/** Actions beside those of the environments. */
const ownActions: readonly string[] = ["reset_mask", "reset_seeds"];

/** The settings of a join as a batch (docs/protocol-notes.md, "Batches"). */
export function batchSettings({
  batch,
  autoresetMode,
  seed,
  settings,
}: BatchJoinOptions): Settings {
  const isCount = Number.isInteger(batch) && batch >= 1 && batch <= 2 ** 31 - 1;
  if (!isCount) {
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `"batch": expected a number of slots, at least 1, received ${batch}`,
      { origin: "client" },
    );
  }
  return {
    ...settings,
    batch: pack(batch, { dtype: "int32" }),
    ...(autoresetMode !== undefined && { autoreset: autoresetMode }),
    ...seedSettings(seed),
  };
}

/** The settings of a join or a reset that seed slots. */
export function seedSettings(
  seed: bigint | readonly bigint[] | undefined,
): Readonly<Record<string, PackValue>> {
  if (seed === undefined) {
    return {};
  }
  if (typeof seed === "bigint") {
    return { seed: pack(BigInt.asUintN(64, seed), { dtype: "uint64" }) };
  }
  return { seeds: tensor("uint64", [seed.length], BigUint64Array.from(seed)) };
}

/**
 * The options of the environment under a batch: it asks for what the batch shows and for what it is made of.
 *
 * @throws DmEnvRpcError UNIMPLEMENTED of origin `client` if the server has taken no notice of the batch.
 */
export function underBatch(tables: SpecTables, options: BatchJoinOptions): JoinOptions {
  const { as, batch, destroyOnClose, buffers, autoresetMode } = options;
  const isBatch =
    tables.actions.byName.get("reset_mask")?.spec.shape[0] === batch &&
    slotObservations.every((name) => tables.observations.byName.get(name)?.spec.shape[0] === batch);
  if (!isBatch) {
    throw new DmEnvRpcError(
      "UNIMPLEMENTED",
      `the server joined one environment where a batch of ${batch} was asked for: it does not know batches; join without "batch"`,
      { origin: "client" },
    );
  }
  const names = ownNames(tables, options);
  const more = tables.observations.byName.has("discount") ? ["discount"] : [];
  const finals = autoresetMode === "same-step" ? names.map((name) => `final.${name}`) : [];
  const definition: EnvironmentDefinition | undefined = as && {
    ...as,
    actions: leading(as.actions, batch),
    observations: leading(as.observations, batch),
  };
  return {
    as: definition,
    observations: [...new Set([...names, ...finals, ...slotObservations, ...more])],
    reward: () => 0,
    discount: () => 1,
    tensors: buffers === "reuse" ? "reuse" : "view",
    destroyOnClose,
  };
}

/** Full names of the environment's observations that a batch shows. */
export function ownNames(
  { observations: table }: SpecTables,
  { as, observations }: BatchJoinOptions,
): string[] {
  const isSlots = (name: string): boolean =>
    slotObservations.some((other) => other === name) || name.startsWith("final.");
  if (observations !== undefined) {
    return requestedObservations(table, observations, undefined).entries.flatMap(({ name }) =>
      isAsked(name, observations) ? [name] : [],
    );
  }
  const { entries, hidden } = requestedObservations(table, undefined, as?.observations);
  return entries.flatMap(({ name }) => (hidden.has(name) || isSlots(name) ? [] : [name]));
}

const isAsked = (name: string, asked: readonly string[]): boolean =>
  asked.some((other) => name === other || name.startsWith(`${other}.`));

/** Specs of one environment as those of a batch. Specs that are made from settings are not known. */
function leading(specs: SpecsSource<Specs>, size: number): SpecsSource<Specs> {
  return typeof specs === "function" ? specs : mapSpecs(specs, (spec) => [size, ...spec.shape]);
}

function mapSpecs(specs: Specs, shapeOf: (spec: TensorSpec) => readonly number[]): Specs {
  return Object.fromEntries(
    Object.entries(specs).map(([name, spec]) => [
      name,
      typeof spec["dtype"] === "string"
        ? { dtype: spec["dtype"], shape: shapeOf(spec as TensorSpec) }
        : mapSpecs(spec as Specs, shapeOf),
    ]),
  ) as Specs;
}

/** The actions of one slot: without the leading dimension, and without those of the batch itself. */
export function slotActions({ actions }: SpecTables): Specs {
  const own = actions.entries.filter(({ name }) => !ownActions.includes(name));
  return mapSpecs(nestSpecs(own), ({ shape }) => shape.slice(1));
}
