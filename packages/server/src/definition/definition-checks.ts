// SPDX-License-Identifier: Apache-2.0
import { flattenSpecs, packFor } from "@dm-env-rpc/tensor-codec";
import { specTable } from "@dm-env-rpc/tensor-codec/proto";
import { messageOf } from "@dm-env-rpc/transport/internal";
import { wrongControl } from "./controls.ts";
import type { Extension } from "./extension.ts";
import { unknownOption } from "./hooks.ts";
import type { PropertyTree } from "./property.ts";
import { joinTokenSetting, seatKeySetting, worldTypeSetting } from "./reserved-settings.ts";
import type { SettingSpecs } from "./settings.ts";
import type { UntypedWorldDefinition } from "./world.ts";

/**
 * Checks definitions before the server accepts clients, because some mistakes would otherwise show
 * only at a request.
 *
 * @throws Error naming the kind of world, and the remedy.
 */
export function checkDefinitions(definitions: readonly UntypedWorldDefinition[]): void {
  const names = new Set<string>();
  for (const definition of definitions) {
    const { name } = definition;
    if (names.has(name)) {
      throw new Error(`expected worlds with different names, received two named "${name}"`);
    }
    names.add(name);
    for (const check of checks) {
      const wrong = check(definition);
      if (wrong !== undefined) {
        throw new Error(`the world "${name}": ${wrong}`);
      }
    }
  }
}

/** Describes what is wrong with a definition; undefined if it is valid. */
type Check = (definition: UntypedWorldDefinition) => string | undefined;

const checks: readonly Check[] = [
  unknownOption,
  hasName,
  hasRoomForAgents,
  hasTimes,
  leavesReservedSettings,
  hasFittingDefaults,
  hasSpecs,
  hasControls,
];

function hasControls({ controls = {} }: UntypedWorldDefinition): string | undefined {
  return wrongControl(controls);
}

function hasName({ name }: UntypedWorldDefinition): string | undefined {
  return name === ""
    ? "its name is empty: expected a name that identifies the kind of world"
    : undefined;
}

function hasRoomForAgents({ agents = {} }: UntypedWorldDefinition): string | undefined {
  if (typeof agents === "function") {
    return undefined;
  }
  const { min = 1, max = Number.POSITIVE_INFINITY } = agents;
  if (min >= 1 && max >= min) {
    return undefined;
  }
  return `expected 1 ≤ agents.min ≤ agents.max, received ${min} and ${max}; otherwise its first sequence never begins`;
}

function hasTimes({
  clock,
  drainDeadlineMs,
  resetDeadlineMs,
  onDrop,
}: UntypedWorldDefinition): string | undefined {
  const times = {
    "clock.deadlineMs": clock?.deadlineMs,
    "onDrop.holdMs": onDrop?.holdMs,
    drainDeadlineMs,
    resetDeadlineMs,
  };
  for (const [name, ms] of Object.entries(times)) {
    if (ms !== undefined && !(ms > 0)) {
      return `expected ${name} above 0, received ${ms}`;
    }
  }
  return undefined;
}

function leavesReservedSettings({
  settings = {},
  joinSettings = {},
}: UntypedWorldDefinition): string | undefined {
  if (Object.hasOwn(settings, worldTypeSetting)) {
    return `it declares the setting "${worldTypeSetting}", which is reserved for the kind of world to create; rename it`;
  }
  if (Object.hasOwn(joinSettings, joinTokenSetting)) {
    return `it declares the join setting "${joinTokenSetting}", which is reserved for join tokens; rename it`;
  }
  if (Object.hasOwn(joinSettings, seatKeySetting)) {
    return `it declares the join setting "${seatKeySetting}", which is reserved for agents that resume their seats; rename it`;
  }
  return undefined;
}

function hasFittingDefaults({
  settings,
  joinSettings,
}: UntypedWorldDefinition): string | undefined {
  return defaultFault("setting", settings) ?? defaultFault("join setting", joinSettings);
}

function defaultFault(what: string, specs: SettingSpecs = {}): string | undefined {
  for (const [name, spec] of Object.entries(specs)) {
    if (!("default" in spec)) {
      continue;
    }
    try {
      packFor(spec.default, spec, name);
    } catch (error) {
      return `the default of a ${what} does not fit its spec: ${messageOf(error)}`;
    }
  }
  return undefined;
}

function hasSpecs({ actions, observations, clock }: UntypedWorldDefinition): string | undefined {
  for (const [what, specs] of Object.entries({ actions, observations })) {
    if (typeof specs === "function") {
      continue;
    }
    try {
      specTable(flattenSpecs(specs));
    } catch (error) {
      return `its ${what} are not valid specs: ${messageOf(error)}`;
    }
  }
  const needed = clock?.action;
  if (needed === undefined || typeof actions === "function") {
    return undefined;
  }
  if (Object.hasOwn(flattenSpecs(actions), needed)) {
    return undefined;
  }
  return `its clock reads the action "${needed}", which is not among its actions; declare it there`;
}

/** @throws Error if two extensions answer one type, or a property would hide a built-in one. */
export function checkServer(extensions: readonly Extension[], properties: PropertyTree): void {
  const types = new Set<string>();
  for (const { typeName } of extensions) {
    if (types.has(typeName)) {
      throw new Error(`expected one extension for each type, received two for "${typeName}"`);
    }
    types.add(typeName);
  }
  for (const name of ["server", "worlds", "types"]) {
    if (Object.hasOwn(properties, name)) {
      throw new Error(
        `the property "${name}" is reserved: every server has a built-in property of that name; rename yours`,
      );
    }
  }
}
