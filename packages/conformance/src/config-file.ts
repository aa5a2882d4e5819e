// SPDX-License-Identifier: Apache-2.0
import { type DType, dtypes, type PackValue, pack, type Settings } from "@dm-env-rpc/tensor-codec";
import { type AgentCounts, type ConformanceConfig, type Counted, clockNames } from "./config.ts";

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type Reader = (value: Json, where: string) => unknown;

const oneOf =
  (...words: readonly string[]): Reader =>
  (value, where) =>
    words.includes(value as string) ? value : wrong(where, `one of ${words.join(", ")}`, value);

const count: Reader = (value, where) =>
  Number.isSafeInteger(value) && (value as number) > 0
    ? value
    : wrong(where, "an integer above 0", value);

const flag: Reader = (value, where) =>
  typeof value === "boolean" ? value : wrong(where, "true or false", value);

const text: Reader = (value, where) =>
  typeof value === "string" ? value : wrong(where, "a string", value);

const texts: Reader = (value, where) =>
  Array.isArray(value)
    ? value.map((one, index) => text(one, `${where}[${index}]`))
    : wrong(where, "a list of strings", value);

const counted: Reader = (value, where): Counted =>
  record({ create: settings, count }, value, where) as unknown as Counted;

const agents: Reader = (value, where) => {
  if (!isObject(value)) {
    return count(value, where);
  }
  const { min = 1, max } = record({ min: count, max: count }, value, where) as Partial<AgentCounts>;
  return max !== undefined && min <= max
    ? { min, max }
    : wrong(where, '"max", and no larger "min"', value);
};

const readers: { readonly [K in keyof Required<ConformanceConfig>]: Reader } = {
  create: settings,
  join: settings,
  resetWorld: settings,
  worlds: oneOf("none", "one", "many"),
  premade: text,
  required: (value, where) => record({ create: texts, join: texts }, value, where),
  refused: (value, where) => record({ create: settings, join: settings }, value, where),
  agents,
  fullWorld: counted,
  minAgents: counted,
  shortSequence: counted,
  clock: oneOf(...clockNames),
  onLeave: oneOf("continue", "block", "terminate"),
  onDestroy: oneOf("refuse", "drain", "force"),
  onReset: oneOf("respawn", "wait"),
  properties: oneOf("none", "extension", "legacy", "both"),
  batches: flag,
  seats: flag,
  knownFailing: texts,
  timeoutMs: count,
  quietMs: count,
};

/**
 * Parses a config in JSON.
 *
 * @throws Error that names the invalid key or value and its place.
 */
export function parseConfig(json: string): ConformanceConfig {
  return record(readers, JSON.parse(json) as Json, "config") as ConformanceConfig;
}

function record(
  known: Readonly<Record<string, Reader>>,
  value: Json,
  where: string,
): Record<string, unknown> {
  if (!isObject(value)) {
    return wrong(where, "an object", value);
  }
  const read: Record<string, unknown> = {};
  for (const [key, entry] of Object.entries(value)) {
    const reader = Object.hasOwn(known, key) ? known[key] : undefined;
    if (reader === undefined) {
      throw new Error(
        `${where}: unknown key "${key}": expected one of ${Object.keys(known).join(", ")}`,
      );
    }
    read[key] = reader(entry, `${where}.${key}`);
  }
  return read;
}

/** Parses settings, which nest; an object whose only key is a dtype is a value of that dtype. */
function settings(value: Json, where: string): Settings {
  if (!isObject(value)) {
    return wrong(where, "an object of settings", value);
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, entry]) => [name, setting(entry, `${where}.${name}`)]),
  );
}

function setting(value: Json, where: string): PackValue | Settings {
  if (!isObject(value)) {
    return value as PackValue;
  }
  const [key, ...more] = Object.keys(value);
  if (key === undefined || more.length > 0 || !Object.hasOwn(dtypes, key)) {
    return settings(value, where);
  }
  const dtype = key as DType;
  const wide = dtypes[dtype].kind === "bigint";
  const typed = wide ? bigints(value[key] as Json) : (value[key] as PackValue);
  return pack(typed, { dtype, name: where });
}

function bigints(value: Json): PackValue {
  return Array.isArray(value) ? value.map(bigints) : BigInt(value as string | number);
}

function isObject(value: Json): value is { readonly [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function wrong(where: string, expected: string, value: Json): never {
  throw new Error(`${where}: expected ${expected}, received ${JSON.stringify(value)}`);
}
