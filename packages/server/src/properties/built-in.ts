// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, type TensorSpec, t } from "@dm-env-rpc/tensor-codec";
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
  /** True if the reader may read the names of the worlds. */
  readonly mayListWorlds: boolean;
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

/** Returns the properties of the server, of its worlds and of its kinds of world. */
export function serverProperties(facts: ServerFacts): PropertyTree {
  return {
    server: {
      name: text("Name of the server software", () => facts.name),
      version: text("Version of the server software", () => facts.version),
    },
    worlds: {
      names: property(t.string([-1]), {
        description: "Names of the current worlds",
        read: () => {
          if (facts.mayListWorlds) {
            return [...facts.worldNames()];
          }
          throw new DmEnvRpcError(
            "PERMISSION_DENIED",
            'cannot list the worlds: expected the role "operator" or "spectator", received neither; connect with credentials that have one of them',
          );
        },
      }),
      count: count("Number of current worlds", () => facts.worldNames().length),
    },
    types: Object.fromEntries(
      facts.definitions.map((definition) => [keyed(definition.name), typeProperties(definition)]),
    ),
  };
}

/** Returns the properties of the world that a connection has joined. */
export function worldProperties(facts: WorldFacts): PropertyTree {
  return {
    world: {
      name: text("Name of the world", () => facts.name),
      type: text("Kind of the world", () => facts.definition.name),
      version: text("Version of the world's kind", () => facts.definition.version ?? ""),
      agents: count("Number of joined agents", () => facts.agentCount),
      ticks: count("Number of ticks of the world", () => facts.state.ticks),
      sequences: count("Number of sequences that have begun", () => facts.state.sequences),
      missed_deadlines: count("Number of missed deadlines", () => facts.state.missedDeadlines),
      missed_ticks: count(
        "Number of ticks that a real-time clock skipped because they were late",
        () => facts.state.missedTicks,
      ),
    },
  };
}

function typeProperties(definition: UntypedWorldDefinition): PropertyTree {
  return {
    description: text("Description of this kind of world", () => definition.description ?? ""),
    version: text("Version of this kind of world", () => definition.version ?? ""),
    settings: {
      create: settingProperties(definition.settings),
      join: settingProperties(joinSettingsOf(definition)),
      reset: settingProperties(definition.resetSettings, resetSettingProperty),
      reset_world: settingProperties(definition.resetWorldSettings, resetSettingProperty),
    },
  };
}

/** Returns each setting as a property. */
function settingProperties(
  specs: SettingSpecs = {},
  propertyOf: (setting: Setting) => Property = settingProperty,
): PropertyTree {
  const tree: Record<string, Property | Record<string, Property>> = {};
  for (const [name, setting] of Object.entries(specs)) {
    tree[keyed(name)] = propertyOf(setting);
  }
  return tree;
}

/** Returns a setting of a create or a join as a property, whose value is the default. */
function settingProperty(setting: Setting): Property {
  const spec = specOf(setting);
  if (!("default" in setting)) {
    return property(spec, { description: "optional" in setting ? "optional" : "required" });
  }
  return property(spec, {
    description: "optional; the value is the default",
    read: () => setting.default as never,
  });
}

/** Returns a setting of a reset as a property without a value, because defaults do not apply to resets. */
function resetSettingProperty(setting: Setting): Property {
  return property(specOf(setting), { description: "optional; if omitted, it keeps its value" });
}

function specOf({ dtype, shape, min, max }: Setting): TensorSpec {
  return {
    dtype,
    shape,
    ...(min === undefined ? {} : { min }),
    ...(max === undefined ? {} : { max }),
  };
}

/** Returns a name as a key: a "." would separate levels, so it becomes a "/". */
function keyed(name: string): string {
  return name.replaceAll(".", "/");
}

function text(description: string, read: () => string): Property {
  return property(t.string(), { description, read });
}

function count(description: string, read: () => number): Property {
  return property(t.uint32(), { description, read });
}
