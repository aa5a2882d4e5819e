// SPDX-License-Identifier: Apache-2.0
import {
  DmEnvRpcError,
  type PackableOf,
  type TensorSpec,
  type ValueOf,
} from "@dm-env-rpc/tensor-codec";
import type { AgentId } from "./agent.ts";
import type { Awaitable } from "./awaitable.ts";

/** Access to a property. */
export interface PropertyAccess<T extends TensorSpec> {
  /** For people. */
  readonly description?: string | undefined;
  /**
   * Returns the current value; without it the property cannot be read. Must not change what agents observe. If it throws
   * a DmEnvRpcError, the client receives it. A property of a world receives the requesting agent.
   */
  read?(agent: AgentId | undefined): Awaitable<PackableOf<T>>;
  /**
   * Accepts a value that fits the spec; the world decides when it takes effect. Without it the
   * property cannot be written.
   */
  write?(value: ValueOf<T>, agent: AgentId | undefined): Awaitable<void>;
}

/**
 * A tensor besides the agents' actions and observations (reference.md, "Read/Write/List Property").
 */
export interface Property {
  readonly kind: "property";
  readonly spec: TensorSpec;
  readonly description: string;
  /** Returns the current value; undefined if it cannot be read. */
  read?(agent: AgentId | undefined): Awaitable<unknown>;
  /** Accepts a value that fits the spec; undefined if it cannot be written. */
  write?(value: unknown, agent: AgentId | undefined): Awaitable<void>;
}

/**
 * Properties by name. A nested record is an entry that can be listed. The key of a property is its
 * path of names, joined with ".".
 */
export interface PropertyTree {
  readonly [name: string]: Property | PropertyTree;
}

/**
 * Declares a property of a server or of a world.
 *
 * @example
 * let gravity = 9.81;
 * const properties = {
 *   gravity: property(t.float64(), {
 *     description: "Acceleration in m/s².",
 *     read: () => gravity,
 *     write: (value) => {
 *       gravity = value;
 *     },
 *   }),
 * };
 */
export function property<const T extends TensorSpec>(spec: T, access: PropertyAccess<T>): Property {
  const { description = "", read, write } = access;
  return {
    kind: "property",
    spec,
    description,
    ...(read === undefined ? {} : { read: (agent) => read(agent) }),
    ...(write === undefined ? {} : { write: (value, agent) => write(value as ValueOf<T>, agent) }),
  };
}

/** True for a property, false for a record of properties. */
export function isProperty(node: Property | PropertyTree): node is Property {
  return node["kind"] === "property";
}

/**
 * Checks the names in a tree.
 *
 * @throws DmEnvRpcError INTERNAL for a name that is empty or contains a ".".
 */
export function checkPropertyTree(tree: PropertyTree): void {
  for (const [name, node] of Object.entries(tree)) {
    if (name === "" || name.includes(".")) {
      throw new DmEnvRpcError(
        "INTERNAL",
        `property name malformed: expected a non-empty name without ".", received "${name}"; to nest properties, use a record`,
      );
    }
    if (!isProperty(node)) {
      checkPropertyTree(node);
    }
  }
}
