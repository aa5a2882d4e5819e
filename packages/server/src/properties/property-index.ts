// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, type TensorSpec } from "@dm-env-rpc/tensor-codec";
import type { Awaitable } from "../definition/awaitable.ts";
import {
  checkPropertyTree,
  isProperty,
  type Property,
  type PropertyTree,
} from "../definition/property.ts";
import type { Question } from "./author-questions.ts";

/** A property or a record of properties, with its full key. */
export interface PropertyEntry {
  readonly key: string;
  /** Undefined if the entry can only be listed. */
  readonly property: Property | undefined;
  readonly spec: TensorSpec | undefined;
  /** Undefined if the entry cannot be listed. */
  readonly children: readonly PropertyEntry[] | undefined;
}

/**
 * The properties of a world or of a server, with the function that calls them. Properties of a
 * world are called between its transitions.
 */
export interface PropertyLayer {
  readonly index: PropertyIndex;
  /** Calls an author's function for a client; errors are a DmEnvRpcError or a TensorError. */
  call<T>(question: Question, run: () => Awaitable<T>): Promise<T>;
}

/** The entries of a tree by full key. The root has the empty key. */
export type PropertyIndex = ReadonlyMap<string, PropertyEntry>;

/**
 * Creates the index of a tree.
 *
 * @throws DmEnvRpcError INTERNAL for a name that is empty or contains a ".".
 */
export function indexProperties(tree: PropertyTree): PropertyIndex {
  checkPropertyTree(tree);
  const index = new Map<string, PropertyEntry>();
  const add = (key: string, node: Property | PropertyTree): PropertyEntry => {
    const entry = isProperty(node)
      ? { key, property: node, spec: node.spec, children: undefined }
      : {
          key,
          property: undefined,
          spec: undefined,
          children: Object.entries(node).map(([name, child]) => add(join(key, name), child)),
        };
    index.set(key, entry);
    return entry;
  };
  add("", tree);
  return index;
}

function join(key: string, name: string): string {
  return key === "" ? name : `${key}.${name}`;
}

/**
 * Finds a key in the first layer that has it.
 *
 * @throws DmEnvRpcError NOT_FOUND naming the nearest keys.
 */
export function findProperty(
  layers: readonly PropertyLayer[],
  key: string,
): { readonly layer: PropertyLayer; readonly entry: PropertyEntry } {
  for (const layer of layers) {
    const entry = layer.index.get(key);
    if (entry !== undefined) {
      return { layer, entry };
    }
  }
  const parent = key.slice(0, Math.max(0, key.lastIndexOf(".")));
  const near = layers.flatMap(({ index }) => index.get(parent)?.children ?? []);
  const known = near.map((entry) => entry.key).join(", ") || "none";
  throw new DmEnvRpcError(
    "NOT_FOUND",
    `unknown property "${key.slice(0, 200)}"; properties under "${parent.slice(0, 200)}": ${known}`,
  );
}

/**
 * Returns the entries directly below a key, in all layers.
 *
 * @throws DmEnvRpcError NOT_FOUND, or PERMISSION_DENIED if the entry cannot be listed.
 */
export function listProperties(layers: readonly PropertyLayer[], key: string): PropertyEntry[] {
  if (findProperty(layers, key).entry.children === undefined) {
    throw new DmEnvRpcError(
      "PERMISSION_DENIED",
      `the property "${key}" has nothing under it to list; read it instead`,
    );
  }
  return layers.flatMap(({ index }) => index.get(key)?.children ?? []);
}
