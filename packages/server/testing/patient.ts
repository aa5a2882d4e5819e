// SPDX-License-Identifier: Apache-2.0
import type { UntypedWorld, UntypedWorldDefinition } from "../src/definition/world.ts";

/** The functions of a world's author that may answer with a promise. */
export type PatientCall = "create" | "join" | "start" | "step";

/** What becomes of a call of the author's code. */
export type Fate = "succeeds" | "throws" | "rejects" | "hangs";

/** Says what becomes of each call, before it is made. */
export type Oracle = (call: PatientCall) => Fate;

/** One call that goes wrong: the one of its kind with this number, counted from 1. */
export interface Mishap {
  readonly call: PatientCall;
  readonly number: number;
  readonly fate: Exclude<Fate, "succeeds">;
}

/** An oracle that knows of one mishap. */
export function oracleOf(mishap: Mishap | undefined): Oracle {
  let calls = 0;
  return (call) => {
    if (mishap === undefined || call !== mishap.call) {
      return "succeeds";
    }
    calls += 1;
    return calls === mishap.number ? mishap.fate : "succeeds";
  };
}

/** The same world, but each function that may answer with a promise does, and not all go well. */
export function patient(
  definition: UntypedWorldDefinition,
  oracle: Oracle,
): UntypedWorldDefinition {
  const soon = <T>(call: PatientCall, run: () => T | PromiseLike<T>): Promise<T> => {
    const fate = oracle(call);
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
  };
  return {
    ...definition,
    create: (context) =>
      soon("create", async () => {
        const world: UntypedWorld = await definition.create(context);
        return {
          ...world,
          join: (agent, settings) => soon("join", () => world.join?.(agent, settings)),
          start: (start) => soon("start", () => world.start?.(start)),
          step: (actions) => soon("step", () => world.step(actions)),
        } satisfies UntypedWorld;
      }),
  };
}
