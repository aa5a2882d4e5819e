// SPDX-License-Identifier: Apache-2.0
import {
  type DmEnvSpec,
  type DmEnvSpecs,
  flattenSpecs,
  type Specs,
  TensorError,
} from "@dm-env-rpc/tensor-codec";
import { Stacker } from "./stacker.ts";

/** What is compared: the actions, and the observations that are asked for. */
interface Described {
  readonly specs: { readonly actions: Specs };
  observationSpec(): DmEnvSpecs;
}

/** Remembers what the first environment is like, and checks that the others are like it. */
export interface SlotChecker<E extends Described> {
  /** @throws TensorError `spec` naming the first difference. */
  check(environment: E, slot: number): void;
  /** What stacks the observations; there is one once an environment was checked. */
  readonly stacker: Stacker;
}

/** Makes a checker that has seen nothing yet. */
export function slotChecker<E extends Described>(): SlotChecker<E> {
  let expected: Map<string, string> | undefined;
  let stacker: Stacker | undefined;
  return {
    get stacker() {
      stacker ??= new Stacker({});
      return stacker;
    },
    check(environment, slot) {
      const received = describe(environment);
      if (expected === undefined) {
        stacker = new Stacker(environment.observationSpec());
        expected = received;
        return;
      }
      for (const name of new Set([...expected.keys(), ...received.keys()])) {
        const [was, is] = [expected.get(name), received.get(name)];
        if (was === is) {
          continue;
        }
        throw new TensorError({
          reason: "spec",
          name,
          expected: `slot ${slot} to be like the first: ${was ?? "without it"}`,
          received: is ?? "nothing of that name",
          remedy: "make all slots of worlds with the same specs, or ask for the same observations",
        });
      }
    },
  };
}

/** Makes a checker that takes slots as they are: nothing is stacked. */
export function uncheckedSlots(): SlotChecker<Described> {
  return { check: () => {}, stacker: new Stacker({}) };
}

function describe(environment: Described): Map<string, string> {
  const actions = Object.entries(flattenSpecs(environment.specs.actions)).map(
    ([name, { dtype, shape }]) => [`action ${name}`, `${dtype} [${shape}]`] as const,
  );
  const observations = leaves(environment.observationSpec()).map(
    ({ name, dtype, shape }) => [`observation ${name}`, `${dtype} [${shape}]`] as const,
  );
  return new Map([...actions, ...observations]);
}

function leaves(specs: DmEnvSpecs): DmEnvSpec[] {
  return Object.values(specs).flatMap((spec) => (isLeaf(spec) ? [spec] : leaves(spec)));
}

function isLeaf(spec: DmEnvSpec | DmEnvSpecs): spec is DmEnvSpec {
  return typeof spec["kind"] === "string";
}
