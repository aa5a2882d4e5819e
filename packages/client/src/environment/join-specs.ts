// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { type ActionObservationSpecs, ActionObservationSpecsSchema } from "@dm-env-rpc/protocol";
import {
  dtypes,
  elementCount,
  equalSpecs,
  flattenSpecs,
  nestValues,
  type Specs,
  TensorError,
  type TensorSpec,
} from "@dm-env-rpc/tensor-codec";
import { type SpecEntry, type SpecTable, unpackSpecs } from "@dm-env-rpc/tensor-codec/proto";
import type { SpecsSource } from "./definition.ts";

/** The specs in the response to a join or a reset. */
export interface SpecTables {
  readonly actions: SpecTable;
  readonly observations: SpecTable;
}

/** The observations to request, and those of them that are hidden in a time step's observation. */
export interface Requested {
  readonly entries: readonly SpecEntry[];
  readonly hidden: ReadonlySet<string>;
}

/** Returns the tables in the response to a join or a reset. */
export function tablesOf(specs: ActionObservationSpecs | undefined): SpecTables {
  return unpackSpecs(specs ?? create(ActionObservationSpecsSchema));
}

/** Nests specs by their dotted names. */
export function nestSpecs(entries: readonly SpecEntry[]): Specs {
  return nestValues(Object.fromEntries(entries.map(({ name, spec }) => [name, spec]))) as Specs;
}

const signals = ["reward", "discount"] as const;

/**
 * Returns the observations to request: the given names, the definition's, or all. Reward and discount
 * are always included.
 *
 * @throws TensorError `name` for a name that the server does not have.
 */
export function requestedObservations(
  table: SpecTable,
  names: readonly string[] | undefined,
  definition: SpecsSource<Specs> | undefined,
): Requested {
  const requested = new Set<string>();
  const wanted =
    names ??
    (typeof definition === "object"
      ? Object.keys(flattenSpecs(definition))
      : table.entries.map(({ name }) => name));
  for (const name of wanted) {
    for (const leaf of leavesOf(table, name)) {
      requested.add(leaf);
    }
  }
  const hidden = new Set<string>(
    signals.filter((name) => table.byName.has(name) && names?.includes(name) !== true),
  );
  const entries = table.entries.filter(({ name }) => requested.has(name) || isSignal(name));
  return { entries, hidden };
}

function isSignal(name: string): boolean {
  return name === "reward" || name === "discount";
}

function leavesOf(table: SpecTable, name: string): string[] {
  if (table.byName.has(name)) {
    return [name];
  }
  const prefix = `${name}.`;
  const leaves = table.entries.filter((entry) => entry.name.startsWith(prefix));
  if (leaves.length === 0) {
    throw new TensorError({
      reason: "name",
      name,
      expected: `one of the observations ${table.entries.map((entry) => `"${entry.name}"`).join(", ")}`,
      received: `"${name}"`,
      remedy: "request observations that the world has",
    });
  }
  return leaves.map((entry) => entry.name);
}

/**
 * Checks that the server has the specs of a definition; the server may have more. Specs that depend on
 * settings are not checked, because only their types are known.
 *
 * @throws TensorError `spec` naming the first difference.
 */
export function checkDefinition(
  expected: SpecsSource<Specs>,
  table: SpecTable,
  kind: "action" | "observation",
): void {
  if (typeof expected === "function") {
    return;
  }
  for (const [name, spec] of Object.entries(flattenSpecs(expected))) {
    const found = table.byName.get(name)?.spec;
    if (found !== undefined && fits(found, spec)) {
      continue;
    }
    throw new TensorError({
      reason: "spec",
      name,
      expected: `the ${kind} to be ${describe(spec)}, as in the definition`,
      received: found === undefined ? `no such ${kind} from the server` : describe(found),
      remedy: "set the option `as` to the definition that the server runs, or omit `as`",
    });
  }
}

/** Checks that the observation of a signal, if the server has it, is a single number. */
export function checkSignal(table: SpecTable, name: "reward" | "discount"): void {
  const spec = table.byName.get(name)?.spec;
  if (spec === undefined) {
    return;
  }
  const { kind } = dtypes[spec.dtype];
  if (elementCount(spec.shape) === 1 && kind !== "string" && kind !== "proto") {
    return;
  }
  throw new TensorError({
    reason: "spec",
    name,
    expected: "a single number",
    received: describe(spec),
    remedy: `join with a \`${name}\` function that converts it to a number`,
  });
}

/**
 * Checks that specs have not changed.
 *
 * @throws TensorError `spec` naming the old and the new spec (behaviour 53).
 */
export function checkUnchanged(before: SpecTables, after: SpecTables): void {
  for (const kind of ["actions", "observations"] as const) {
    const names = new Set([...before[kind].byName.keys(), ...after[kind].byName.keys()]);
    for (const name of names) {
      const was = before[kind].byName.get(name);
      const is = after[kind].byName.get(name);
      if (was?.uid === is?.uid && was && is && equalSpecs(was.spec, is.spec)) {
        continue;
      }
      throw new TensorError({
        reason: "spec",
        name,
        expected: `the ${kind} to be unchanged: ${described(was)}`,
        received: `${described(is)} after a reset`,
        remedy: 'join again, or join with changedSpecs: "accept"',
      });
    }
  }
}

function described(entry: SpecEntry | undefined): string {
  return entry === undefined ? "none" : `${describe(entry.spec)} with UID ${entry.uid}`;
}

function fits(found: TensorSpec, expected: TensorSpec): boolean {
  return (
    found.dtype === expected.dtype &&
    found.shape.length === expected.shape.length &&
    expected.shape.every((size, axis) => size < 0 || size === found.shape[axis])
  );
}

function describe(spec: TensorSpec): string {
  const bound = (value: unknown): string => (ArrayBuffer.isView(value) ? `[${value}]` : `${value}`);
  const min = spec.min === undefined ? "" : ` from ${bound(spec.min)}`;
  const max = spec.max === undefined ? "" : ` to ${bound(spec.max)}`;
  return `${spec.dtype} of shape [${spec.shape}]${min}${max}`;
}
