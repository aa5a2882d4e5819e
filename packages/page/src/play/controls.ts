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

/** Something that a person can do at once, by a button or a key. */
export interface Choice {
  /** As in `KeyboardEvent.key`; undefined where it has a button alone. */
  readonly key: string | undefined;
  readonly label: string;
  readonly actions: DynamicAction;
}

/** An action whose value a person sets, and which goes with the next step. */
export interface Field {
  readonly name: string;
  readonly kind: "switch" | "number" | "text";
  readonly min: number | undefined;
  readonly max: number | undefined;
  /** True for an integer. */
  readonly isWhole: boolean;
}

/** How people play a world. */
export interface ControlSet {
  readonly choices: readonly Choice[];
  /** Actions while no key is down. */
  readonly idle: DynamicAction;
  readonly fields: readonly Field[];
}

/** Values of a discrete action that have a button each. */
const maxButtons = 16;

/** The world's own controls, and fields and buttons from the specs for actions that these leave out. */
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
      // Digits are keys of the first action that has buttons.
      const key = choices.length === index && index < 10 ? String(index) : undefined;
      choices.push({ key, label: `${name} ${value}`, actions: place(name, value) });
    }
  }
  return { choices, idle, fields };
}

/** The values of a discrete action, where they are few. */
function valuesOf(spec: TensorSpec): readonly number[] | undefined {
  const [min, max] = [Number(spec.min), Number(spec.max)];
  return isDiscrete(spec) && max - min < maxButtons
    ? Array.from({ length: max - min + 1 }, (_, index) => min + index)
    : undefined;
}

/** The field of a scalar; none for arrays and messages, which a step may leave out. */
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

/** Two actions in one; where both have a value, the later one's. */
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

/** True unless the mask of legal actions in an observation says otherwise (docs/protocol-notes.md, "Conventions"). */
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

/** A mask by itself is that of the only discrete action; several have one each, by name. */
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
