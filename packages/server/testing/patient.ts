// SPDX-License-Identifier: Apache-2.0
import type { UntypedWorld, UntypedWorldDefinition } from "../src/definition/world.ts";

/** The functions of a world's author that may answer with a promise. */
export type PatientCall = "create" | "join" | "start" | "step";

/** Outcome of an author call. */
export type Fate = "succeeds" | "throws" | "rejects" | "hangs";

/** Decides the outcome of each author call of one world, before it is made. */
export type Oracle = (call: PatientCall) => Fate;

/** The calls that go wrong: of each world the one of this kind with this number, counted from 1. */
export interface Mishap {
  readonly call: PatientCall;
  readonly number: number;
  readonly fate: Exclude<Fate, "succeeds">;
}

/**
 * Returns a function that creates the oracle of another world. Each counts its own calls, because
 * those of two worlds at one moment have no order; creations have one, and are counted together.
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
 * Returns the same world whose functions all return a promise if they may, and some of them fail.
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

/** Runs `run` with a promise of its result, unless the call is to fail. */
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
