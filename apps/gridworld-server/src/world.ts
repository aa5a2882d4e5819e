// SPDX-License-Identifier: Apache-2.0
import { type Clock, defineWorld, optional, property } from "@dm-env-rpc/server";
import {
  DmEnvRpcError,
  type StatusCode,
  type TensorSpec,
  t,
  tensor,
} from "@dm-env-rpc/tensor-codec";
import {
  agentFields,
  createForaging,
  type ForagingErrorReason,
  type ForagingSettings,
  type ForagingSettingsInput,
  foodFields,
  foragingActions,
  gridChannels,
  isForagingError,
  maxLevel,
  PictureCache,
  resolveSettings,
  tileSide,
} from "./foraging/index.ts";

const maxInt32 = 2 ** 31 - 1;

/** Create settings by their names on the wire. */
const settings = {
  height: optional(t.int32()),
  width: optional(t.int32()),
  max_agents: optional(t.int32()),
  min_agents: optional(t.int32()),
  food: optional(t.int32()),
  max_agent_level: optional(t.int32()),
  min_food_level: optional(t.int32()),
  max_food_level: optional(t.int32()),
  sight: optional(t.int32()),
  max_steps: optional(t.int32()),
  cooperative: optional(t.bool()),
  penalty: optional(t.float64()),
  normalize_reward: optional(t.bool()),
  layout: optional(t.string()),
};

type Settings = {
  readonly [K in keyof typeof settings]?: number | bigint | boolean | string | undefined;
};

/** Name of the action by which an agent sets how many ticks it sleeps, with the clock `wakeUp`. */
export const sleepAction = "sleep";

/**
 * Level-Based Foraging (Albrecht & Ramamoorthy 2013; Papoudakis et al. 2021) as a world: agents
 * walk a grid and together load food that is too heavy for one of them.
 *
 * Actions: `move` int8, 0 none, 1 north, 2 south, 3 west, 4 east, 5 load. With the clock `wakeUp`
 * also `sleep` int32, 1…max_steps: the agent moves in the first of that many ticks, does nothing in
 * the others, and receives its response after the last, or when the sequence ends. Default 1.
 *
 * @param clock When the board advances, and what happens to slow agents.
 * @param onDestroy What a destroy does while agents are joined.
 */
export function gridworld(clock: Clock, onDestroy: "refuse" | "drain" | "force" = "refuse") {
  const pictures = new PictureCache();
  return defineWorld({
    name: "gridworld",
    description: "Level-Based Foraging: agents walk a grid and load food together",
    version: "0.1.0",
    settings,
    joinSettings: {
      name: optional(t.string()),
      level: optional(t.int32({ min: 1, max: maxLevel })),
    },
    actions: ({ create }) => ({
      move: t.int8({ min: foragingActions.none, max: foragingActions.load }),
      ...sleepSpecs(clock, resolved(create)),
    }),
    observations: ({ create }) => observationSpecs(resolved(create)),
    agents: (create) => {
      const { minAgents, maxAgents } = resolved(create);
      return { min: minAgents, max: maxAgents };
    },
    clock,
    controls: {
      ArrowUp: { label: "North", actions: { move: foragingActions.north } },
      ArrowDown: { label: "South", actions: { move: foragingActions.south } },
      ArrowLeft: { label: "West", actions: { move: foragingActions.west } },
      ArrowRight: { label: "East", actions: { move: foragingActions.east } },
      " ": { label: "Load", actions: { move: foragingActions.load } },
      "": { label: "Wait", actions: { move: foragingActions.none } },
    },
    onDestroy,

    create({ settings: create, random }) {
      const foraging = createForaging<number>(toForaging(create), random.next, pictures);
      const { sight, maxAgents, food, height, width } = foraging.settings;
      const side = 2 * sight + 1;
      return {
        join: (agent, options) => refusing(() => foraging.join(agent, options)),
        leave: (agent) => foraging.leave(agent),
        start: ({ agents }) => foraging.reset(agents),
        enter: (agent) => refusing(() => foraging.enter(agent)),
        exit: (agent) => foraging.remove(agent),
        step(actions) {
          const moves = new Map<number, number>();
          for (const [agent, { move }] of actions) {
            if (move !== undefined) {
              moves.set(agent, move);
            }
          }
          foraging.step(moves);
        },
        status: () => foraging.status,
        observe: {
          grid: (agent) => tensor("uint8", [side, side, gridChannels], foraging.grid(agent)),
          position: (agent) => tensor("int32", [2], foraging.position(agent)),
          level: (agent) => foraging.level(agent),
          agents: () => tensor("int32", [maxAgents, agentFields], foraging.agents()),
          food: () => tensor("int32", [food, foodFields], foraging.food()),
          step: () => foraging.stepCount,
          rgb: (agent) =>
            tensor("uint8", [height * tileSide, width * tileSide, 3], foraging.rgb(agent)),
          reward: (agent) => foraging.rewardOf(agent),
        },
        picture: () => tensor("uint8", [height * tileSide, width * tileSide, 3], foraging.rgb()),
        properties: {
          board: property(t.string(), {
            description: "The board as a layout draws it",
            read: () => foraging.text(),
          }),
          seed: property(t.uint64(), {
            description: "Seed of the world's random numbers",
            read: () => random.seed,
          }),
          food_left: property(t.uint32(), {
            description: "Food on the board",
            read: () => foodLeft(foraging.food()),
          }),
        },
      };
    },
  });
}

/** Returns the spec of `sleep` if the clock supports it. */
function sleepSpecs(
  clock: Clock,
  { maxSteps }: ForagingSettings,
): { readonly [sleepAction]?: TensorSpec<"int32", readonly []> } {
  return clock.action === sleepAction ? { [sleepAction]: t.int32({ min: 1, max: maxSteps }) } : {};
}

function observationSpecs({ sight, maxAgents, food, height, width, maxSteps }: ForagingSettings) {
  const side = 2 * sight + 1;
  return {
    grid: t.uint8([side, side, gridChannels]),
    position: t.int32([2]),
    level: t.int32({ min: 1, max: maxLevel }),
    agents: t.int32([maxAgents, agentFields]),
    food: t.int32([food, foodFields]),
    step: maxSteps < maxInt32 ? t.int32({ min: 0, max: maxSteps }) : t.int32(),
    rgb: t.uint8([height * tileSide, width * tileSide, 3]),
    reward: t.float32(),
  };
}

function resolved(create: Settings): ForagingSettings {
  return refusing(() => resolveSettings(toForaging(create)).settings);
}

function toForaging(create: Settings): ForagingSettingsInput {
  return {
    height: create.height,
    width: create.width,
    maxAgents: create.max_agents,
    minAgents: create.min_agents,
    food: create.food,
    maxAgentLevel: create.max_agent_level,
    minFoodLevel: create.min_food_level,
    maxFoodLevel: create.max_food_level,
    sight: create.sight,
    maxSteps: create.max_steps,
    cooperative: create.cooperative,
    penalty: create.penalty,
    normalizeReward: create.normalize_reward,
    layout: create.layout,
  } as ForagingSettingsInput;
}

const codes: Readonly<Record<ForagingErrorReason, StatusCode>> = {
  "invalid-setting": "INVALID_ARGUMENT",
  "invalid-layout": "INVALID_ARGUMENT",
  "invalid-action": "INVALID_ARGUMENT",
  "unknown-agent": "NOT_FOUND",
  "already-joined": "ALREADY_EXISTS",
  "world-full": "RESOURCE_EXHAUSTED",
  "board-full": "RESOURCE_EXHAUSTED",
  "wrong-state": "FAILED_PRECONDITION",
};

/** Returns the number of foods that are not loaded yet. */
function foodLeft(food: Int32Array): number {
  let left = 0;
  for (let level = foodFields - 1; level < food.length; level += foodFields) {
    if (food[level] !== 0) {
      left += 1;
    }
  }
  return left;
}

/** Maps a refused call to an error of the caller instead of a fault of the world. */
function refusing<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    if (!isForagingError(error)) {
      throw error;
    }
    throw new DmEnvRpcError(codes[error.reason], error.message, { cause: error });
  }
}
