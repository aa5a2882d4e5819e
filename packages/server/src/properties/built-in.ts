// SPDX-License-Identifier: Apache-2.0
import { t } from "@dm-env-rpc/tensor-codec";
import { joinSettingsOf } from "../definition/batch/settings.ts";
import { type Property, type PropertyTree, property } from "../definition/property.ts";
import type { Setting, SettingSpecs } from "../definition/settings.ts";
import type { UntypedWorldDefinition } from "../definition/world.ts";

/** Source of the built-in properties of a server. */
export interface ServerFacts {
  readonly name: string;
  readonly version: string;
  readonly definitions: readonly UntypedWorldDefinition[];
  worldNames(): readonly string[];
}

/** Source of the built-in properties of a world. */
export interface WorldFacts {
  readonly name: string;
  readonly definition: UntypedWorldDefinition;
  readonly agentCount: number;
  readonly state: {
    readonly ticks: number;
    readonly sequences: number;
    readonly missedDeadlines: number;
    readonly missedTicks: number;
  };
}

/** Properties of the server itself, of its worlds, and of the kinds of world that it has. */
export function serverProperties(facts: ServerFacts): PropertyTree {
  return {
    server: {
      name: text("The software that serves", () => facts.name),
      version: text("Its version", () => facts.version),
    },
    worlds: {
      names: property(t.string([-1]), {
        description: "Names of the worlds that there are",
        read: () => [...facts.worldNames()],
      }),
      count: count("Worlds that there are", () => facts.worldNames().length),
    },
    types: Object.fromEntries(
      facts.definitions.map((definition) => [keyed(definition.name), typeProperties(definition)]),
    ),
  };
}

/** Properties of the world that a connection has joined. */
export function worldProperties(facts: WorldFacts): PropertyTree {
  return {
    world: {
      name: text("Its name", () => facts.name),
      type: text("Its kind", () => facts.definition.name),
      version: text("The version of its kind", () => facts.definition.version ?? ""),
      agents: count("Agents that have joined", () => facts.agentCount),
      ticks: count("Times that it has advanced", () => facts.state.ticks),
      sequences: count("Sequences that have begun", () => facts.state.sequences),
      missed_deadlines: count(
        "Steps that did not come before their deadline",
        () => facts.state.missedDeadlines,
      ),
      missed_ticks: count(
        "Ticks of a real-time clock that were left out because they came too late",
        () => facts.state.missedTicks,
      ),
    },
  };
}

function typeProperties(definition: UntypedWorldDefinition): PropertyTree {
  return {
    description: text("What it is", () => definition.description ?? ""),
    version: text("Its version", () => definition.version ?? ""),
    settings: {
      create: settingProperties(definition.settings),
      join: settingProperties(joinSettingsOf(definition)),
      reset: settingProperties(definition.resetSettings),
      reset_world: settingProperties(definition.resetWorldSettings),
    },
  };
}

/** Returns each setting as a property with its spec, whose value is the default. */
function settingProperties(specs: SettingSpecs = {}): PropertyTree {
  const tree: Record<string, Property | Record<string, Property>> = {};
  for (const [name, setting] of Object.entries(specs)) {
    tree[keyed(name)] = settingProperty(setting);
  }
  return tree;
}

function settingProperty(setting: Setting): Property {
  const spec = {
    dtype: setting.dtype,
    shape: setting.shape,
    ...(setting.min === undefined ? {} : { min: setting.min }),
    ...(setting.max === undefined ? {} : { max: setting.max }),
  };
  if (!("default" in setting)) {
    return property(spec, { description: "optional" in setting ? "optional" : "required" });
  }
  return property(spec, {
    description: "optional; what is read is its default",
    read: () => setting.default as never,
  });
}

/** A "." would be read as a level. */
function keyed(name: string): string {
  return name.replaceAll(".", "/");
}

function text(description: string, read: () => string): Property {
  return property(t.string(), { description, read });
}

function count(description: string, read: () => number): Property {
  return property(t.uint32(), { description, read });
}
