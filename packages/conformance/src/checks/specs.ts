// SPDX-License-Identifier: Apache-2.0
import { elementCount, isVariable, type TensorSpec } from "@dm-env-rpc/tensor-codec";
import { type Check, checksOf } from "../check.ts";
import { expectThat } from "../mismatch.ts";
import { needed } from "../nothing-to-check.ts";
import { requests } from "../requests.ts";
import { act, boundaries, refusesAction, runningAgent, strangeUid } from "../samples.ts";

type Bound = TensorSpec["min"];

function boundAt(bound: Bound, at: number): number | bigint | undefined {
  return typeof bound === "object" ? bound[bound.length === 1 ? 0 : at] : bound;
}

function checkBounds(name: string, { shape, min, max }: TensorSpec): void {
  const open = isVariable(shape);
  for (const bound of [min, max]) {
    const one = typeof bound !== "object" || bound.length === 1;
    const fits = one || (!open && bound.length === elementCount(shape));
    expectThat(fits, `a bound for each element of "${name}", or one`, `${bound}`);
  }
  for (let at = 0; at < (open ? 1 : elementCount(shape)); at++) {
    const [low, high] = [boundAt(min, at), boundAt(max, at)];
    const ordered = low === undefined || high === undefined || low <= high;
    expectThat(ordered, `a min of "${name}" that is not above its max`, `${low} and ${high}`);
  }
}

/** Behaviours 15–19: names, bounds, UIDs and messages in specs. */
export const specChecks: readonly Check[] = [
  ...checksOf(15, 'overview.md, "TensorSpec"', {
    "unique-names": {
      title:
        "Names are unique among actions and among observations, and no name is the parent of another.",
      async run(stage) {
        const agent = await stage.agent();
        for (const { entries } of [agent.actions, agent.observations]) {
          const names = entries.map(({ name }) => name);
          names.forEach((name, i) => {
            expectThat(names.indexOf(name) === i, "unique names", `"${name}" twice`);
            const child = names.find((other) => other.startsWith(`${name}.`));
            expectThat(child === undefined, `no name below "${name}"`, `"${child}"`);
          });
        }
      },
    },
  }),
  ...checksOf(16, 'overview.md, "Ranges"', {
    bounds: {
      title: "Specs are valid: at most one variable dimension, bounds of their dtype, min ≤ max.",
      async run(stage) {
        // A join fails on specs that are invalid by themselves, in every check.
        const agent = await stage.agent();
        for (const { entries } of [agent.actions, agent.observations]) {
          for (const { name, spec } of entries) {
            checkBounds(name, spec);
          }
        }
      },
    },
    inclusive: {
      title: "Bounds are inclusive: an action at its min or its max is accepted.",
      async run(stage) {
        const agent = await runningAgent(stage);
        const edges = agent.actions.entries.flatMap((entry) =>
          [...boundaries(entry.spec)].map(({ within }) => ({ entry, within })),
        );
        for (const { entry, within } of needed(edges, "action with bounds")) {
          await agent.step([], [act(entry, within)]);
        }
      },
    },
  }),
  ...checksOf(17, 'overview.md, "Ranges"', {
    "out-of-range": {
      title: "An action with any element below its min or above its max is refused.",
      async run(stage) {
        const agent = await runningAgent(stage);
        const edges = agent.actions.entries.flatMap((entry) =>
          [...boundaries(entry.spec)].flatMap(({ at, beyond }) =>
            beyond === undefined ? [] : [{ entry, at, beyond }],
          ),
        );
        for (const { entry, at, beyond } of needed(edges, "action with bounds")) {
          await refusesAction(agent, entry, beyond, `${beyond.data[at]} at element ${at}`);
        }
      },
    },
  }),
  ...checksOf(18, 'overview.md, "UIDs"', {
    "exact-uids": {
      title: "A UID beyond 2^53 stays exact.",
      async run(stage) {
        const agent = await runningAgent(stage);
        const uid = strangeUid(agent.observations);
        const { message } = await agent.refused(requests.step([uid], []), "an unknown observation");
        expectThat(message.includes(`${uid}`), `an error that names ${uid}`, `"${message}"`);
      },
    },
  }),
  ...checksOf(19, 'overview.md, "Nested actions/observations"', {
    "proto-actions": {
      title: "An action of dtype proto is accepted.",
      async run(stage) {
        const agent = await runningAgent(stage);
        const protos = agent.actions.entries.filter(({ spec }) => spec.dtype === "proto");
        for (const entry of needed(protos, "action of dtype proto")) {
          await agent.step([], [act(entry)]);
        }
      },
    },
  }),
];
