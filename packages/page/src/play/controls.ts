// SPDX-License-Identifier: Apache-2.0
import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { DynamicAction, DynamicObservation } from "@dm-env-rpc/client";
import type { Control } from "@dm-env-rpc/protocol/spectator";
import {
  type FlatSpecs,
  flattenSpecs,
  isDiscrete,
  legalActionsName,
  type Specs,
  type Tensor,
  type TensorSpec,
} from "@dm-env-rpc/tensor-codec";

/** Actions of one button or key. */
export interface Choice {
  /** A `KeyboardEvent.key`; undefined if the choice has only a button. */
  readonly key: string | undefined;
  readonly label: string;
  readonly actions: DynamicAction;
}

/** An action whose value a person enters; the next step sends it. */
export interface Field {
  readonly name: string;
  readonly kind: "switch" | "number" | "text";
  readonly min: number | undefined;
  readonly max: number | undefined;
  /** True for an integer. */
  readonly isWhole: boolean;
}

/** The controls of a world. */
export interface ControlSet {
  readonly choices: readonly Choice[];
  /** Actions that apply while no key is down. */
  readonly idle: DynamicAction;
  readonly fields: readonly Field[];
}

/** Maximum number of values of a discrete action that has a button for each value. */
const maxButtons = 16;

/** Returns the world's own controls, and buttons or fields, made from their specs, for all other actions. */
export function controlsOf(actions: Specs, given: readonly Control[]): ControlSet {
  const specs = flattenSpecs(actions);
  const choices: Choice[] = [];
  const fields: Field[] = [];
  let idle: DynamicAction = {};
  const covered = new Set<string>();
  for (const { key, label, actions: json = {} } of given) {
    const action = toAction(json);
    for (const name of namesIn(action)) {
      covered.add(name);
    }
    if (key === "") {
      idle = action;
    }
    choices.push({ key: key === "" ? undefined : key, label, actions: action });
  }
  for (const [name, spec] of Object.entries(specs)) {
    if (covered.has(name)) {
      continue;
    }
    const values = valuesOf(spec);
    if (values === undefined) {
      fields.push(...fieldsFor(name, spec));
      continue;
    }
    for (const [index, value] of values.entries()) {
      // If the world declares no controls, the first action with buttons has the digits as keys.
      const key = choices.length === index && index < 10 ? String(index) : undefined;
      choices.push({ key, label: `${name} ${value}`, actions: place(name, value) });
    }
  }
  return { choices, idle, fields };
}

/** Returns the values of a discrete action that has few; otherwise undefined. */
function valuesOf(spec: TensorSpec): readonly number[] | undefined {
  const [min, max] = [Number(spec.min), Number(spec.max)];
  return isDiscrete(spec) && max - min < maxButtons
    ? Array.from({ length: max - min + 1 }, (_, index) => min + index)
    : undefined;
}

/** Returns the field of a scalar; no field for arrays and messages, which a step may omit. */
function fieldsFor(name: string, { dtype, shape, min, max }: TensorSpec): readonly Field[] {
  if (shape.length > 0 || dtype === "proto") {
    return [];
  }
  const bound = (value: unknown): number | undefined =>
    typeof value === "number" || typeof value === "bigint" ? Number(value) : undefined;
  const kind = dtype === "bool" ? "switch" : dtype === "string" ? "text" : "number";
  const isWhole = /^u?int/.test(dtype);
  return [{ name, kind, min: bound(min), max: bound(max), isWhole }];
}

/** An action by the dotted name of its spec. */
export function place(name: string, value: number | boolean | string): DynamicAction {
  const [last = "", ...outer] = name.split(".").reverse();
  return outer.reduce<DynamicAction>((inner, part) => ({ [part]: inner }), { [last]: value });
}

/** Merges two actions. A value of the later action replaces the same value of the earlier. */
export function merge(first: DynamicAction, later: DynamicAction): DynamicAction {
  const merged: Record<string, DynamicAction[string]> = { ...first };
  for (const [name, value] of Object.entries(later)) {
    const before = merged[name];
    merged[name] = isNested(before) && isNested(value) ? merge(before, value) : value;
  }
  return merged;
}

function isNested(value: DynamicAction[string]): value is DynamicAction {
  return (
    typeof value === "object" && value !== null && !Array.isArray(value) && !("dtype" in value)
  );
}

function toAction(json: JsonObject): DynamicAction {
  const entries = Object.entries(json).flatMap(([name, value]) => {
    const converted = toPackable(value);
    return converted === undefined ? [] : [[name, converted] as const];
  });
  return Object.fromEntries(entries);
}

function toPackable(value: JsonValue): DynamicAction[string] {
  if (value === null) {
    return undefined;
  }
  if (Array.isArray(value)) {
    return value.filter((element) => typeof element === "number");
  }
  return typeof value === "object" ? toAction(value) : value;
}

/** Dotted names of the values in an action. */
function namesIn(action: DynamicAction): readonly string[] {
  return Object.entries(action).flatMap(([name, value]) =>
    isNested(value) ? namesIn(value).map((inner) => `${name}.${inner}`) : [name],
  );
}

/** Returns false if the mask of legal actions in an observation forbids the actions (docs/protocol-notes.md, "Conventions"). */
export function isLegal(
  { actions }: Choice,
  specs: Specs,
  observation: DynamicObservation | undefined,
): boolean {
  const masks = observation?.[legalActionsName];
  if (masks === undefined) {
    return true;
  }
  const flat = flattenSpecs(specs);
  return namesIn(actions).every((name) => {
    const spec = flat[name];
    const mask = maskFor(masks, name, flat);
    const value = at(actions, name);
    if (spec === undefined || mask === undefined || typeof value !== "number") {
      return true;
    }
    return Number(mask.data[value - Number(spec.min)] ?? 1) !== 0;
  });
}

/** Returns the mask of an action: the only mask, or, with several discrete actions, the one with its name. */
function maskFor(masks: DynamicObservation[string], name: string, specs: FlatSpecs) {
  const own = isTensor(masks) ? masks : at(masks, name);
  return isTensor(own) && isDiscrete(specs[name] ?? { dtype: "string", shape: [] })
    ? own
    : undefined;
}

function isTensor(value: unknown): value is Tensor {
  return typeof value === "object" && value !== null && "dtype" in value;
}

/** The value at a dotted name. */
function at(record: unknown, name: string): unknown {
  return name.split(".").reduce<unknown>((inner, part) => {
    const isRecord = typeof inner === "object" && inner !== null;
    return isRecord ? (inner as Readonly<Record<string, unknown>>)[part] : undefined;
  }, record);
}
