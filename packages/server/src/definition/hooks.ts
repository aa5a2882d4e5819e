// SPDX-License-Identifier: Apache-2.0
import { known, namesOf, unknownName } from "./names.ts";
import type { UntypedWorld, UntypedWorldDefinition } from "./world.ts";

const worldHooks = namesOf<UntypedWorld>({
  join: true,
  leave: true,
  start: true,
  enter: true,
  exit: true,
  reset: true,
  validate: true,
  step: true,
  observe: true,
  affected: true,
  status: true,
  picture: true,
  properties: true,
  extensions: true,
  turn: true,
  destroy: true,
});

const worldOptions = namesOf<UntypedWorldDefinition>({
  name: true,
  description: true,
  version: true,
  settings: true,
  joinSettings: true,
  resetSettings: true,
  resetWorldSettings: true,
  actions: true,
  observations: true,
  perAgent: true,
  clock: true,
  controls: true,
  agents: true,
  onLeave: true,
  onDrop: true,
  onReset: true,
  lateEntry: true,
  onDestroy: true,
  drainDeadlineMs: true,
  resetDeadlineMs: true,
  create: true,
  batched: true,
});

/**
 * Checks the result of the author's `create`.
 *
 * @throws Error if it is not a world, or has an unknown hook.
 */
export function checkWorld(world: UntypedWorld | undefined): UntypedWorld {
  if (typeof world?.step !== "function" || typeof world.observe !== "object") {
    throw new Error(
      `expected a world with a function "step" and an object "observe", received ${typeof world?.step} and ${typeof world?.observe}`,
    );
  }
  return known(world, worldHooks, "a world");
}

/** Describes an unknown name in a world's definition. */
export function unknownOption(definition: UntypedWorldDefinition): string | undefined {
  return unknownName(definition, worldOptions, "a world's definition");
}
