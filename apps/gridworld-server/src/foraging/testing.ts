// SPDX-License-Identifier: Apache-2.0
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isForagingError } from "./errors.ts";
import { createForaging, type Foraging } from "./foraging.ts";
import { parseLayout } from "./layout.ts";
import type { Random } from "./random.ts";
import { foragingActions } from "./rules.ts";
import type { ForagingSettingsInput } from "./settings.ts";

/** Creates a seeded source for tests (mulberry32). */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A source for scenes without chance. */
export const noRandom: Random = () => {
  throw new Error("expected nothing to be drawn");
};

/** Creates and resets a board from a drawing, whose agents are named 0, 1, … in reading order. */
export function scene(layout: string, settings: ForagingSettingsInput = {}): Foraging<number> {
  const world = createForaging<number>({ ...settings, layout }, noRandom);
  const agents = parseLayout(layout).agents.map((_, index) => index);
  for (const agent of agents) {
    world.join(agent);
  }
  world.reset(agents);
  return world;
}

/** Plays a tick with the action of each agent, in the order of joining. */
export function play(
  world: Foraging<number>,
  ...actions: (keyof typeof foragingActions)[]
): Foraging<number> {
  world.step(new Map(actions.map((action, agent) => [agent, foragingActions[action]])));
  return world;
}

/** Returns a drawing in the format of `text()`, from a template literal. */
export function drawn(layout: string): string {
  return layout
    .trim()
    .split("\n")
    .map((line) => line.trim())
    .join("\n");
}

/** Returns the place of each of the agents 0, 1, … as row and col. */
export function places(world: Foraging<number>, count: number): number[][] {
  return Array.from({ length: count }, (_, agent) => [...world.position(agent)]);
}

/** Expects a call to be refused for a reason, with a message that contains each of the texts. */
export function expectRefusal(call: () => unknown, reason: string, ...parts: string[]): void {
  let caught: unknown;
  try {
    call();
  } catch (error) {
    caught = error;
  }
  if (!isForagingError(caught)) {
    throw new Error(`expected a ForagingError, received ${caught}`);
  }
  const { reason: received, message } = caught;
  const missing = parts.filter((part) => !message.includes(part));
  if (received !== reason || missing.length > 0) {
    throw new Error(
      `expected ${reason} with ${JSON.stringify(parts)}, received ${received}: ${message}`,
    );
  }
}

/** Returns the bytes of array buffers, after a garbage collection. V8 frees them later, in another thread. */
export function arrayBuffers(): number {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  return process.memoryUsage().arrayBuffers;
}
