// SPDX-License-Identifier: Apache-2.0
import {
  DmEnvRpcError,
  type PackedTensor,
  type TensorSpec,
  type ValueOf,
} from "@dm-env-rpc/tensor-codec";
import { shorten } from "@dm-env-rpc/transport/internal";
import { exactValue } from "./exact.ts";

/** The setting that seeds a world's random source. */
export const seedSetting = "seed";

/** A setting that may be omitted. */
export type OptionalSetting<T extends TensorSpec> = T & { readonly optional: true };

/** A setting with a default: its value if a create or a join omits it. */
export type DefaultedSetting<T extends TensorSpec> = T & { readonly default: ValueOf<T> };

/**
 * The spec of a setting. Without `optional` or `withDefault`, a create and a join require it; a reset
 * may omit every setting.
 */
export type Setting =
  | TensorSpec
  | OptionalSetting<TensorSpec>
  | (TensorSpec & { readonly default: unknown });

/** Settings by name. Clients send nested settings with a `.` in the name. */
export type SettingSpecs = Readonly<Record<string, Setting>>;

/** The values of settings: optional ones may be undefined. */
export type SettingValues<S extends SettingSpecs> = {
  readonly [K in keyof S]: S[K] extends { readonly optional: true }
    ? ValueOf<S[K]> | undefined
    : ValueOf<S[K]>;
};

/** Makes a setting optional: its value is undefined if it is omitted. */
export function optional<const T extends TensorSpec>(spec: T): OptionalSetting<T> {
  return { ...spec, optional: true };
}

/** Gives a setting a default: its value if a create or a join omits it. A reset has no defaults. */
export function withDefault<const T extends TensorSpec>(
  spec: T,
  value: ValueOf<T>,
): DefaultedSetting<T> {
  return { ...spec, default: value };
}

/**
 * Reads the settings of a request by their specs. A number may have any numeric dtype that
 * represents it exactly.
 *
 * @param what Name of the request in errors: "create", "join" …
 * @param partial True for a reset: every setting may be omitted, and defaults do not apply, because
 *   an omitted setting keeps its value.
 * @throws DmEnvRpcError INVALID_ARGUMENT naming a setting that is missing, unknown or invalid.
 */
export function readSettings<S extends SettingSpecs>(
  specs: S,
  received: ReadonlyMap<string, PackedTensor>,
  what: string,
  partial: boolean,
): SettingValues<S> {
  for (const name of received.keys()) {
    if (!Object.hasOwn(specs, name)) {
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `unknown ${what} setting "${shorten(name)}"; ${remedyFor(name, specs)}`,
      );
    }
  }
  const values: Record<string, unknown> = {};
  for (const [name, spec] of Object.entries(specs)) {
    const packed = received.get(name);
    if (packed !== undefined) {
      values[name] = exactValue(packed, spec, name);
    } else if (!partial && "default" in spec) {
      values[name] = spec.default;
    } else if (!partial && !("optional" in spec)) {
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `the ${what} setting "${name}" is required: expected ${spec.dtype} of shape [${spec.shape}], received nothing`,
      );
    }
  }
  return values as SettingValues<S>;
}

function remedyFor(name: string, specs: SettingSpecs): string {
  if (name === seedSetting) {
    return "the agents of this world share its random numbers, so seed it when it is created or reset as a whole";
  }
  const known = Object.keys(specs);
  return known.length === 0
    ? "this request has no settings"
    : `known settings: ${known.join(", ")}`;
}
