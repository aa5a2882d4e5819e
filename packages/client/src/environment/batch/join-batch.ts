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
import type { BatchJoinOptions, JoinOptions, SeatsJoinOptions } from "../environment.ts";
import { nestSpecs, requestedObservations, type SpecTables } from "../join-specs.ts";

/** Observations of every row, which is a slot or a seat, in addition to those of its environment. */
const rowObservations = ["step_type", "terminated", "truncated"] as const;

/** Observations of every slot of a batch. */
const slotObservations = [
  "reward",
  ...rowObservations,
  "episode_return",
  "episode_length",
  "slot_failures",
] as const;

/** Largest number of rows: it is sent as an int32. */
const maxRows = 2 ** 31 - 1;

/** Options of a join with several rows. */
type RowsOptions = BatchJoinOptions | SeatsJoinOptions;

const isBatch = (options: RowsOptions): options is BatchJoinOptions => "batch" in options;

/** Returns the number of rows. */
export function sizeOf(options: RowsOptions): number {
  return isBatch(options) ? options.batch : options.seats;
}

/** Actions of a batch, and of a stream with several seats, in addition to those of the environments. */
const [slotMasks, rowMasks] = [["reset_mask", "reset_seeds"], ["begin_mask"]] as const;

/** Returns the settings of a join as a batch, or with several seats (docs/protocol-notes.md). */
export function rowsSettings(options: RowsOptions): Settings {
  const size = sizeOf(options);
  const setting = isBatch(options) ? "batch" : "seats";
  const isCount = Number.isInteger(size) && size >= 1 && size <= maxRows;
  if (!isCount) {
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `"${setting}": expected an integer from 1 to ${maxRows}, received ${size}`,
      { origin: "client" },
    );
  }
  const count = { [setting]: pack(size, { dtype: "int32" }) };
  if (!isBatch(options)) {
    return { ...options.settings, ...count };
  }
  const { autoresetMode, seed, settings } = options;
  return {
    ...settings,
    ...count,
    ...(autoresetMode !== undefined && { autoreset: autoresetMode }),
    ...seedSettings(seed),
  };
}

/** Returns the settings that seed the slots, for a join or a reset. */
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
 * Returns the options of the underlying environment, which requests the observations that the batch
 * shows or needs.
 *
 * @throws DmEnvRpcError UNIMPLEMENTED of origin `client` if the server ignored the setting.
 */
export function underRows(tables: SpecTables, options: RowsOptions): JoinOptions {
  const { as, destroyOnClose, buffers } = options;
  const size = sizeOf(options);
  const { byName } = tables.observations;
  const made: readonly string[] = isBatch(options) ? slotObservations : rowObservations;
  const resets = tables.actions.byName.get("reset_mask")?.spec.shape[0] === size;
  const hasRows = made.every((name) => byName.get(name)?.spec.shape[0] === size);
  if (!hasRows || (isBatch(options) && !resets)) {
    const setting = isBatch(options) ? "batch" : "seats";
    throw new DmEnvRpcError(
      "UNIMPLEMENTED",
      `the server ignored the setting "${setting}": expected ${size} rows, received a single agent; join without "${setting}"`,
      { origin: "client" },
    );
  }
  const names = ownNames(tables, options);
  const more = ["reward", "discount"].filter((name) => byName.has(name));
  const isSameStep = isBatch(options) && options.autoresetMode === "same-step";
  const finals = isSameStep ? names.map((name) => `final.${name}`) : [];
  const definition: EnvironmentDefinition | undefined = as && {
    ...as,
    actions: leading(as.actions, size),
    observations: leading(as.observations, size),
  };
  return {
    as: definition,
    observations: [...new Set([...names, ...finals, ...made, ...more])],
    reward: () => 0,
    discount: () => 1,
    tensors: buffers === "reuse" ? "reuse" : "view",
    destroyOnClose,
  };
}

/** Returns the full names of the environment's observations that rows show. */
export function ownNames({ observations: table }: SpecTables, options: RowsOptions): string[] {
  const { as, observations } = options;
  const made: readonly string[] = isBatch(options) ? slotObservations : rowObservations;
  const isSlots = (name: string): boolean =>
    made.includes(name) || (isBatch(options) && name.startsWith("final."));
  if (observations !== undefined) {
    return requestedObservations(table, observations, undefined).entries.flatMap(({ name }) =>
      isRequested(name, observations) ? [name] : [],
    );
  }
  const { entries, hidden } = requestedObservations(table, undefined, as?.observations);
  return entries.flatMap(({ name }) => (hidden.has(name) || isSlots(name) ? [] : [name]));
}

const isRequested = (name: string, requested: readonly string[]): boolean =>
  requested.some((other) => name === other || name.startsWith(`${other}.`));

/**
 * Converts the specs of one environment to the specs of a batch. Specs that depend on settings are
 * unknown before the join, and are returned unchanged.
 */
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

/** Returns the action specs of one row, without the leading dimension and without the masks. */
export function rowActions({ actions }: SpecTables, options: RowsOptions): Specs {
  const masks: readonly string[] = isBatch(options) ? slotMasks : rowMasks;
  const own = actions.entries.filter(({ name }) => !masks.includes(name));
  return mapSpecs(nestSpecs(own), ({ shape }) => shape.slice(1));
}
