// SPDX-License-Identifier: Apache-2.0
import type { ActionValues } from "../definition/clock.ts";

/**
 * Merges the actions of a step into the actions in force, name by name and at every level of
 * nesting; omitted actions stay in force.
 *
 * @returns The new actions in force, if any.
 */
export function mergeActions(
  inForce: ActionValues | undefined,
  given: ActionValues = {},
): ActionValues | undefined {
  const names = Object.keys(given);
  if (names.length === 0) {
    return inForce;
  }
  const merged: Record<string, unknown> = { ...inForce };
  for (const name of names) {
    const [before, after] = [merged[name], given[name]];
    merged[name] = isGroup(before) && isGroup(after) ? mergeActions(before, after) : after;
  }
  return merged;
}

/** Returns true for a group of actions, false for the value of an action, which may be a tensor. */
function isGroup(value: unknown): value is ActionValues {
  if (typeof value !== "object" || value === null) {
    return false;
  }
  return !("data" in value && "dtype" in value && typeof value.dtype === "string");
}
