// SPDX-License-Identifier: Apache-2.0
import type { SingleAgentDefinition, SingleAgentEnvironment } from "./environment.ts";
import { unknownName } from "./names.ts";
import type { UntypedWorld, UntypedWorldDefinition } from "./world.ts";

const worldHooks = namesOf<UntypedWorld>({
  join: true,
  leave: true,
  start: true,
  enter: true,
  exit: true,
  reset: true,
  step: true,
  observe: true,
  affected: true,
  status: true,
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
  agents: true,
  onLeave: true,
  onReset: true,
  lateEntry: true,
  onDestroy: true,
  drainDeadlineMs: true,
  resetDeadlineMs: true,
  create: true,
});

const environmentHooks = namesOf<SingleAgentEnvironment<never, never>>({
  reset: true,
  step: true,
  close: true,
});

const environmentOptions = namesOf<SingleAgentDefinition<never, never, never, never>>({
  name: true,
  description: true,
  version: true,
  settings: true,
  joinSettings: true,
  actions: true,
  observations: true,
  agents: true,
  onDestroy: true,
  drainDeadlineMs: true,
  create: true,
});

/**
 * Checks what the author's `create` returned.
 *
 * @throws Error if it is not a world, or has a hook that no world has.
 */
export function checkWorld(world: UntypedWorld | undefined): UntypedWorld {
  if (typeof world?.step !== "function" || typeof world.observe !== "object") {
    throw new Error(
      `expected it to return a world with "step" and "observe", received ${typeof world}`,
    );
  }
  return known(world, worldHooks, "a world");
}

/**
 * Checks what the author's `create` of a single-agent environment returned.
 *
 * @throws Error if it has a hook that no environment has.
 */
export function checkEnvironment<T extends object>(environment: T): T {
  return known(environment, environmentHooks, "an environment");
}

/**
 * Checks the names in the definition of a single-agent environment.
 *
 * @throws Error naming one that no definition has.
 */
export function checkEnvironmentOptions(definition: { readonly name: string }): void {
  const wrong = unknownName(definition, environmentOptions, "an environment's definition");
  if (wrong !== undefined) throw new Error(`the environment "${definition.name}": ${wrong}`);
}

/** Describes a name in a world's definition that no definition has. */
export function unknownOption(definition: UntypedWorldDefinition): string | undefined {
  return unknownName(definition, worldOptions, "a world's definition");
}

function known<T extends object>(value: T, names: readonly string[], what: string): T {
  const wrong = unknownName(value, names, what);
  if (wrong !== undefined) throw new Error(wrong);
  return value;
}

/** The names of a type, which the compiler holds to be all of them. */
function namesOf<T>(names: Readonly<Record<keyof T, true>>): readonly string[] {
  return Object.keys(names);
}
