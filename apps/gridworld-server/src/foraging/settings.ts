// SPDX-License-Identifier: Apache-2.0
import { ForagingError } from "./errors.ts";
import { type Layout, parseLayout } from "./layout.ts";
import { maxInt32, maxLayoutLength, maxLevel, maxSide } from "./limits.ts";

/**
 * Complete settings of a board.
 *
 * Source: Albrecht & Ramamoorthy 2013; Papoudakis et al. 2021; ranges are ours.
 */
export interface ForagingSettings {
  /** Rows, 3…128 (with a layout from 1); default 8, or the layout's. */
  readonly height: number;
  /** Columns, 3…128 (with a layout from 1); default 8, or the layout's. */
  readonly width: number;
  /** Maximum agents, at least 1; default 4, or the number that the layout draws if larger, but at most its free cells. */
  readonly maxAgents: number;
  /** Agents that the server of the board waits for, 1…maxAgents; default 1. Not enforced here. */
  readonly minAgents: number;
  /** Maximum food, at least 1: the rows of the observation `food`; default 4, or the number that the layout draws if larger. */
  readonly food: number;
  /** Highest level drawn for an agent, 1…85; default 2. */
  readonly maxAgentLevel: number;
  /** Lowest level drawn for food, 1…85; default 1. */
  readonly minFoodLevel: number;
  /** Highest level drawn for food, 0…85; default 0: the sum of the three lowest agent levels. */
  readonly maxFoodLevel: number;
  /** Cells that an agent's grid shows to each side of it, 1…128; default the larger side. */
  readonly sight: number;
  /** Ticks until a sequence is interrupted, at least 1; default 50. */
  readonly maxSteps: number;
  /** Gives every food the highest level; default false. */
  readonly cooperative: boolean;
  /** Subtracted from the reward of each agent whose load fails, at least 0; default 0. */
  readonly penalty: number;
  /** Scales rewards so that all food of a sequence is worth 1 in all; default true. */
  readonly normalizeReward: boolean;
  /** Layout of food and agents at each reset (see `parseLayout`). Blank or by default: none. */
  readonly layout?: string;
}

/** Some of the settings; absent or undefined ones have their defaults. */
export type ForagingSettingsInput = {
  readonly [Key in keyof ForagingSettings]?: ForagingSettings[Key] | undefined;
};

/** Complete settings and their parsed layout. */
export interface ResolvedSettings {
  readonly settings: ForagingSettings;
  readonly layout: Layout | undefined;
}

/**
 * Completes settings with their defaults and validates them, also against each other.
 *
 * Messages name a setting as the protocol does (`max_agents`).
 *
 * @throws {ForagingError} `invalid-setting` or `invalid-layout`.
 */
export function resolveSettings(input: ForagingSettingsInput): ResolvedSettings {
  const text = input.layout;
  if (text !== undefined && typeof text !== "string") {
    throw invalid("layout", "a string", text);
  }
  const isBlank = text === undefined || (text.length <= maxLayoutLength && text.trim() === "");
  const layout = isBlank ? undefined : parseLayout(text);
  const leastSide = layout === undefined ? 3 : 1;
  const height = integer("height", input.height ?? layout?.height ?? 8, leastSide, maxSide);
  const width = integer("width", input.width ?? layout?.width ?? 8, leastSide, maxSide);
  if (layout !== undefined && (layout.height !== height || layout.width !== width)) {
    throw new ForagingError(
      "invalid-setting",
      `height and width: expected ${layout.height} and ${layout.width} as in the layout, received ${height} and ${width}; leave them out or change the layout`,
    );
  }

  const drawnAgents = layout?.agents.length ?? 0;
  const drawnFood = layout?.food.length ?? 0;
  const freeCells = height * width - drawnFood;
  if (freeCells === 0) {
    throw new ForagingError(
      "invalid-layout",
      "layout: expected a cell for an agent, received food everywhere; replace a food by '.'",
    );
  }
  const maxAgents = integer(
    "max_agents",
    input.maxAgents ?? Math.max(drawnAgents, Math.min(4, freeCells)),
    1,
    freeCells,
  );
  const minFoodLevel = integer("min_food_level", input.minFoodLevel ?? 1, 1, maxLevel);
  const maxFoodLevel = integer("max_food_level", input.maxFoodLevel ?? 0, 0, maxLevel);
  if (maxFoodLevel !== 0 && maxFoodLevel < minFoodLevel) {
    throw new ForagingError(
      "invalid-setting",
      `max_food_level: expected 0 or at least min_food_level (${minFoodLevel}), received ${maxFoodLevel}; raise it or lower min_food_level`,
    );
  }

  const settings: ForagingSettings = {
    height,
    width,
    maxAgents,
    minAgents: integer("min_agents", input.minAgents ?? 1, 1, maxAgents),
    food: integer(
      "food",
      input.food ?? Math.max(4, drawnFood),
      Math.max(1, drawnFood),
      maxSide * maxSide,
    ),
    maxAgentLevel: integer("max_agent_level", input.maxAgentLevel ?? 2, 1, maxLevel),
    minFoodLevel,
    maxFoodLevel,
    sight: integer("sight", input.sight ?? Math.max(height, width), 1, maxSide),
    maxSteps: integer("max_steps", input.maxSteps ?? 50, 1, maxInt32),
    cooperative: flag("cooperative", input.cooperative ?? false),
    penalty: notNegative("penalty", input.penalty ?? 0),
    normalizeReward: flag("normalize_reward", input.normalizeReward ?? true),
    ...(layout === undefined || text === undefined ? {} : { layout: text }),
  };
  return { settings, layout };
}

/**
 * Returns `value` if it is an integer in `low`…`high`.
 *
 * @throws {ForagingError} `invalid-setting`, naming the setting `name`.
 */
export function integer(name: string, value: unknown, low: number, high: number): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= low && value <= high) {
    return value;
  }
  throw invalid(name, `an integer from ${low} to ${high}`, value);
}

function notNegative(name: string, value: unknown): number {
  if (typeof value === "number" && Number.isFinite(value) && value >= 0) {
    return value;
  }
  throw invalid(name, "a finite number, 0 or more", value);
}

function flag(name: string, value: unknown): boolean {
  if (typeof value === "boolean") {
    return value;
  }
  throw invalid(name, "true or false", value);
}

function invalid(name: string, expected: string, received: unknown): ForagingError {
  return new ForagingError(
    "invalid-setting",
    `${name}: expected ${expected}, received ${String(received)}; send such a value, or leave it out for its default`,
  );
}
