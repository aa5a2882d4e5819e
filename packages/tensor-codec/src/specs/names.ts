// SPDX-License-Identifier: Apache-2.0
import { dtypes } from "../dtypes/dtype.ts";
import { TensorError } from "../errors/tensor-error.ts";
import type { FlatSpecs, Specs, TensorSpec } from "./spec.ts";

/** Options for joining nested names. */
export interface NestingOptions {
  /**
   * Accepts keys that contain a `.` as already joined names. Otherwise such keys are an error,
   * because unpacking would nest them. Default false.
   */
  readonly allowDots?: boolean | undefined;
}

/** A record of values and of such records. */
export interface Nested<T> {
  [name: string]: T | Nested<T>;
}

/**
 * Returns specs by their full name, nested keys joined with `.` (overview.md, "Nested
 * actions/observations"), in the order given.
 *
 * @throws TensorError `name` for a key with a `.` in it, for a duplicate name, and for a name that is
 * both a spec and a parent of a spec.
 */
export function flattenSpecs(specs: Specs, options: NestingOptions = {}): FlatSpecs {
  return flatten(specs, isTensorSpec, options) as Record<string, TensorSpec>;
}

/**
 * Returns values by their full name, nested keys joined with `.`. Only plain records nest:
 * tensors, arrays and messages are values. Values that are `undefined` are left out.
 *
 * @throws TensorError `name`, as `flattenSpecs` does.
 */
export function flattenValues(
  values: Readonly<Record<string, unknown>>,
  options: NestingOptions = {},
): Record<string, unknown> {
  return flatten(values, isLeaf, options);
}

/**
 * Returns the nested record of values whose names contain `.`: the inverse of
 * `flattenValues`. Names may be hostile: `__proto__` is an ordinary key.
 *
 * @throws TensorError `name` for a name that is both a value and a parent of a value.
 */
export function nestValues<T>(
  flat: Iterable<readonly [string, T]> | Readonly<Record<string, T>>,
): Nested<T> {
  const entries = Symbol.iterator in flat ? flat : Object.entries(flat);
  const root: Nested<T> = {};
  const parents = new Set<unknown>([root]);
  for (const [name, value] of entries as Iterable<readonly [string, T]>) {
    const keys = name.split(".");
    const last = keys.pop() as string;
    let parent = root;
    for (const [depth, key] of keys.entries()) {
      let child = own(parent, key);
      if (child === undefined) {
        child = {};
        parents.add(child);
        setOwn(parent, key, child);
      } else if (!parents.has(child)) {
        throw leafAndParent(keys.slice(0, depth + 1).join("."), name);
      }
      parent = child as Nested<T>;
    }
    if (Object.hasOwn(parent, last)) {
      throw parents.has(parent[last]) ? leafAndParent(name, `${name}.…`) : twice(name);
    }
    setOwn(parent, last, value);
  }
  return root;
}

/**
 * Checks that names are unique and that no name is both a value and a parent of a value (`a` and `a.b`).
 *
 * @throws TensorError `name` that names both.
 */
export function checkNames(names: Iterable<string>): void {
  const leaves = new Set<string>();
  for (const name of names) {
    if (leaves.has(name)) {
      throw twice(name);
    }
    leaves.add(name);
  }
  for (const name of leaves) {
    for (let dot = name.indexOf("."); dot >= 0; dot = name.indexOf(".", dot + 1)) {
      if (leaves.has(name.slice(0, dot))) {
        throw leafAndParent(name.slice(0, dot), name);
      }
    }
  }
}

/** Sets any key of a record, even `__proto__`, for which an assignment would set no key. */
export function setOwn<T>(record: Record<string, T>, key: string, value: T): void {
  if (key === "__proto__") {
    Object.defineProperty(record, key, {
      value,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  } else {
    record[key] = value;
  }
}

/** Returns true for a spec, false for a record of specs. */
export function isTensorSpec(value: unknown): value is TensorSpec {
  return (
    typeof value === "object" &&
    value !== null &&
    "dtype" in value &&
    typeof value.dtype === "string" &&
    Object.hasOwn(dtypes, value.dtype) &&
    "shape" in value &&
    Array.isArray(value.shape)
  );
}

function isLeaf(value: unknown): boolean {
  if (typeof value !== "object" || value === null) {
    return true;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && prototype !== Object.prototype) {
    return true;
  }
  return "$typeName" in value || ("dtype" in value && "shape" in value && "data" in value);
}

function flatten(
  values: Readonly<Record<string, unknown>>,
  isValue: (value: unknown) => boolean,
  { allowDots = false }: NestingOptions,
): Record<string, unknown> {
  const flat: Record<string, unknown> = {};
  const names: string[] = [];
  const walk = (record: object, prefix: string, above: readonly object[]) => {
    if (above.includes(record)) {
      throw nameError("records that do not contain themselves", `"${prefix}…"`);
    }
    for (const [key, value] of Object.entries(record)) {
      if (value === undefined) {
        continue;
      }
      if (!allowDots && key.includes(".")) {
        throw nameError(
          'keys without "."',
          `"${prefix}${key}"`,
          "nest records instead, or set allowDots",
        );
      }
      const name = prefix + key;
      if (isValue(value)) {
        names.push(name);
        setOwn(flat, name, value);
      } else if (typeof value === "object" && value !== null) {
        walk(value, `${name}.`, [...above, record]);
      } else {
        throw nameError(`a spec or a record of specs under "${name}"`, typeof value);
      }
    }
  };
  walk(values, "", []);
  checkNames(names);
  return flat;
}

const own = <T>(record: Nested<T>, key: string): T | Nested<T> | undefined =>
  Object.hasOwn(record, key) ? record[key] : undefined;

const twice = (name: string): TensorError =>
  nameError("names that are unique", `"${name}" twice`, "rename one of the two");

const leafAndParent = (leaf: string, child: string): TensorError =>
  nameError(
    'names that are either a value or a parent of values (a "." nests)',
    `both "${leaf}" and "${child}"`,
    "rename one of the two",
  );

function nameError(expected: string, received: string, remedy?: string): TensorError {
  return new TensorError({ reason: "name", expected, received, remedy });
}
