// SPDX-License-Identifier: Apache-2.0
import {
  type DmEnvSpec,
  type DmEnvSpecs,
  flattenSpecs,
  type Specs,
  TensorError,
} from "@dm-env-rpc/tensor-codec";
import { Stacker } from "./stacker.ts";

/** The specs to compare: those of the actions and of the requested observations. */
interface Described {
  readonly specs: { readonly actions: Specs };
  observationSpec(): DmEnvSpecs;
}

/** Stores the specs of the first environment, and checks that the others have the same specs. */
export interface SlotChecker<E extends Described> {
  /** @throws TensorError `spec` naming the first difference. */
  check(environment: E, slot: number): void;
  /** Stacker of the observations. Stacks nothing until an environment has been checked. */
  readonly stacker: Stacker;
}

/** Creates a checker that takes the specs of the first environment as the expected ones. */
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
          expected: `slot ${slot} to have the specs of the first slot: ${was ?? "nothing of that name"}`,
          received: is ?? "nothing of that name",
          remedy:
            "create all slots in worlds with the same specs, or request the same observations",
        });
      }
    },
  };
}

/** Creates a checker that accepts all slots and stacks nothing. */
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
