// SPDX-License-Identifier: Apache-2.0
import type { UntypedWorld, UntypedWorldDefinition } from "../src/definition/world.ts";

/** The functions of a world's author that may answer with a promise. */
export type PatientCall = "create" | "join" | "start" | "step";

/** Outcome of an author call. */
export type Fate = "succeeds" | "throws" | "rejects" | "hangs";

/** Decides the outcome of each author call of one world, before it is made. */
export type Oracle = (call: PatientCall) => Fate;

/**
 * The author call that goes wrong: the one of this kind with this number, counted from 1. Creations
 * are counted together, other calls in each world.
 */
export interface Mishap {
  readonly call: PatientCall;
  readonly number: number;
  readonly fate: Exclude<Fate, "succeeds">;
}

/**
 * Returns a function that creates the oracle of another world. Each oracle counts the calls of its
 * world, because calls of two worlds at the same moment have no order. Creations do have an order,
 * so all oracles count them together.
 */
export function oraclesOf(mishap: Mishap | undefined): () => Oracle {
  let created = 0;
  return () => {
    let called = 0;
    return (call) => {
      if (mishap === undefined || call !== mishap.call) {
        return "succeeds";
      }
      const number = call === "create" ? ++created : ++called;
      return number === mishap.number ? mishap.fate : "succeeds";
    };
  };
}

/**
 * Returns the definition with functions that return promises wherever they may, and fail when the
 * oracle decides it.
 */
export function patient(
  definition: UntypedWorldDefinition,
  openOracle: () => Oracle,
): UntypedWorldDefinition {
  return {
    ...definition,
    create: (context) => {
      const oracle = openOracle();
      const soon = <T>(call: PatientCall, run: () => T | PromiseLike<T>): Promise<T> =>
        fated(call, oracle(call), run);
      return soon("create", async () => {
        const world: UntypedWorld = await definition.create(context);
        return {
          ...world,
          join: (agent, settings) => soon("join", () => world.join?.(agent, settings)),
          start: (start) => soon("start", () => world.start?.(start)),
          step: (actions) => soon("step", () => world.step(actions)),
        } satisfies UntypedWorld;
      });
    },
  };
}

/** Returns a promise of the result of `run`, unless the call is to fail. */
function fated<T>(call: PatientCall, fate: Fate, run: () => T | PromiseLike<T>): Promise<T> {
  if (fate === "hangs") {
    return new Promise(() => {});
  }
  if (fate === "throws") {
    throw new Error(`${call} threw`);
  }
  if (fate === "rejects") {
    return Promise.reject(new Error(`${call} rejected`));
  }
  return Promise.resolve().then(run);
}
