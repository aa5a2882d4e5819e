// SPDX-License-Identifier: Apache-2.0
import type { Tensor as TensorMessage } from "@dm-env-rpc/protocol";
import { type PackValue, pack, packFor, type Settings } from "../packing/pack.ts";
import { flattenSpecs, flattenValues, type NestingOptions, setOwn } from "../specs/names.ts";
import type { Specs } from "../specs/spec.ts";
import { packTensor } from "./tensors.ts";

/**
 * Packs settings as requests carry them, nested names joined with `.`. A setting in `specs` is
 * packed for its spec and checked; any other by the type of its value. Settings that are
 * `undefined` are left out.
 *
 * @throws TensorError that names the setting.
 */
export function packSettings(
  settings: Settings,
  specs: Specs = {},
  options: NestingOptions = {},
): Record<string, TensorMessage> {
  const known = flattenSpecs(specs, options);
  const packed: Record<string, TensorMessage> = {};
  for (const [name, value] of Object.entries(flattenValues(settings, options))) {
    const spec = Object.hasOwn(known, name) ? known[name] : undefined;
    const tensor =
      spec === undefined ? pack(value as PackValue, { name }) : packFor(value, spec, name);
    setOwn(packed, name, packTensor(tensor));
  }
  return packed;
}
