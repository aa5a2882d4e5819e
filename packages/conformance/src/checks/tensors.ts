// SPDX-License-Identifier: Apache-2.0
import {
  dtypes,
  elementCount,
  type PackedTensor,
  type SpecEntry,
  type Tensor,
} from "@dm-env-rpc/tensor-codec";
import { type Check, checksOf } from "../check.ts";
import { expectThat } from "../mismatch.ts";
import type { Player } from "../player.ts";
import { rawRequest } from "../raw-request.ts";
import { requests } from "../requests.ts";
import {
  act,
  ofAnotherDType,
  outOfBounds,
  shapeFor,
  strangeUid,
  uidsOf,
  valueFor,
} from "../samples.ts";
import type { Stage } from "../stage.ts";

/** An agent that is RUNNING. */
async function runningAgent(stage: Stage): Promise<Player> {
  const player = await stage.agent();
  await player.step();
  return player;
}

function withShape(tensor: Tensor, shape: readonly number[]): PackedTensor {
  return { ...tensor, shape } as PackedTensor;
}

async function refuses(player: Player, entry: SpecEntry, tensor: PackedTensor, what: string) {
  await player.refused(
    requests.step([], [act(entry, tensor)]),
    `the action "${entry.name}" with ${what}`,
  );
  const { state } = await player.step();
  expectThat(state === "RUNNING", "RUNNING, as the error changed nothing", state);
}

/** The element that fills an action's shape, if one does for all bounds. */
function filler(entry: SpecEntry): Tensor | undefined {
  const { spec } = entry;
  const value = valueFor(spec);
  const [first] = value.data;
  if (value.data.length === 0 || [...value.data].some((one) => one !== first)) return undefined;
  return { ...value, data: value.data.slice(0, 1) } as Tensor;
}

/** Behaviours 10–18: what goes for tensors, seen through actions, observations and their specs. */
export const tensorChecks: readonly Check[] = [
  ...checksOf(10, 'overview.md, "Tensors"', {
    "one-element-in-a-scalar": {
      title: "A scalar action of two elements is refused.",
      async run(stage) {
        const player = await runningAgent(stage);
        for (const entry of player.actions.entries) {
          if (entry.spec.shape.length > 0) continue;
          const data = dtypes[entry.spec.dtype].allocate(2);
          const two = { dtype: entry.spec.dtype, shape: [], data } as unknown as PackedTensor;
          await refuses(player, entry, two, "two elements and no shape");
        }
      },
    },
    "wrong-shape": {
      title: "An action with a dimension too many is refused.",
      async run(stage) {
        const player = await runningAgent(stage);
        for (const entry of player.actions.entries) {
          const shape = [...shapeFor(entry.spec), 1];
          const tensor = withShape(valueFor(entry.spec), shape);
          await refuses(player, entry, tensor, `shape [${shape}] for [${entry.spec.shape}]`);
        }
      },
    },
  }),
  ...checksOf(11, 'overview.md, "Variable lengths"', {
    "inferred-dimension": {
      title: "An action whose first dimension is -1 is accepted, its length being inferred.",
      async run(stage) {
        const player = await runningAgent(stage);
        for (const entry of player.actions.entries) {
          const shape = shapeFor(entry.spec);
          if (shape.length === 0 || shape.includes(0)) continue;
          await player.step(
            [],
            [act(entry, withShape(valueFor(entry.spec), [-1, ...shape.slice(1)]))],
          );
        }
      },
    },
    "two-variable-dimensions": {
      title: "An action with two variable dimensions is refused.",
      async run(stage) {
        const player = await runningAgent(stage);
        for (const entry of player.actions.entries) {
          const shape = shapeFor(entry.spec);
          if (shape.length < 2) continue;
          const tensor = withShape(valueFor(entry.spec), [-1, -1, ...shape.slice(2)]);
          await refuses(player, entry, tensor, "two variable dimensions");
        }
      },
    },
  }),
  ...checksOf(12, 'overview.md, "Broadcasting"', {
    "one-element-fills": {
      title: "One element fills the shape of an action.",
      async run(stage) {
        const player = await runningAgent(stage);
        for (const entry of player.actions.entries) {
          const one = filler(entry);
          if (one !== undefined) await player.step([], [act(entry, one)]);
        }
      },
    },
  }),
  ...checksOf(13, 'reference.md, "StepRequest/Response"', {
    "no-cast": {
      title: "An action of another dtype is refused, whatever its value.",
      async run(stage) {
        const player = await runningAgent(stage);
        for (const entry of player.actions.entries) {
          await refuses(player, entry, ofAnotherDType(entry.spec), "another dtype");
        }
      },
    },
  }),
  ...checksOf(14, 'wire-format.md, "Tensor"', {
    "packed-or-not": {
      title: "Requested observations mean the same, packed or one by one.",
      notFor: (_config, protocol) =>
        protocol === "grpc" ? undefined : "such bytes are sent over gRPC only",
      async run(stage) {
        const player = await runningAgent(stage);
        const uids = uidsOf(player.observations).slice(0, 2);
        const varints = uids.map((uid) => varint(BigInt(uid)));
        const inner = {
          packed: [0x12, ...varint(BigInt(varints.flat().length)), ...varints.flat()],
          "one by one": varints.flatMap((bytes) => [0x10, ...bytes]),
        };
        for (const [how, bytes] of Object.entries(inner)) {
          const step = rawRequest([0x1a, ...varint(BigInt(bytes.length)), ...bytes]);
          const response = await player.send(step);
          const received =
            response.case === "step" ? response.value.observations.map(({ uid }) => uid) : [];
          expectThat(
            received.length === uids.length && uids.every((uid) => received.includes(uid)),
            `observations ${uids.join()} for uids ${how}`,
            received.join() || `${response.case}`,
          );
        }
      },
    },
  }),
  ...checksOf(15, 'overview.md, "Tensor specs"', {
    "unique-names": {
      title:
        "Names are unique among actions and among observations; none is the parent of another.",
      async run(stage) {
        const player = await stage.agent();
        for (const { entries } of [player.actions, player.observations]) {
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
      title: "Specs are sound: one variable dimension at most, bounds of their dtype, min ≤ max.",
      async run(stage) {
        const player = await stage.agent();
        for (const { entries } of [player.actions, player.observations]) {
          for (const { name, spec } of entries) {
            const open = spec.shape.filter((size) => size < 0).length;
            expectThat(open <= 1, `one variable dimension at most in "${name}"`, `${open}`);
            for (const bound of [spec.min, spec.max]) {
              const scalar = typeof bound !== "object" || bound.length === 1;
              const fits = scalar || (open === 0 && bound.length === elementCount(spec.shape));
              expectThat(fits, `a bound for each element of "${name}", or one`, `${bound}`);
            }
          }
        }
      },
    },
  }),
  ...checksOf(17, 'overview.md, "Ranges"', {
    "out-of-range": {
      title: "An action below its min or above its max is refused, in each of its elements.",
      async run(stage) {
        const player = await runningAgent(stage);
        for (const entry of player.actions.entries) {
          for (const { at, value } of outOfBounds(entry.spec)) {
            await refuses(player, entry, value, `${value.data[at]} at element ${at}`);
          }
        }
      },
    },
  }),
  ...checksOf(18, 'overview.md, "Unique Identifications"', {
    "exact-uids": {
      title: "A UID beyond 2^53 stays exact.",
      async run(stage) {
        const player = await runningAgent(stage);
        const uid = strangeUid(player.observations);
        const { message } = await player.refused(
          requests.step([uid], []),
          "an unknown observation",
        );
        expectThat(message.includes(`${uid}`), `an error that names ${uid}`, `"${message}"`);
      },
    },
  }),
  ...checksOf(19, 'overview.md, "Nested actions or observations"', {
    "proto-actions": {
      title: "An action of messages in Any is accepted.",
      async run(stage) {
        const player = await runningAgent(stage);
        for (const entry of player.actions.entries) {
          if (entry.spec.dtype === "proto") await player.step([], [act(entry)]);
        }
      },
    },
  }),
];

function varint(value: bigint): number[] {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 127n) {
    bytes.push(Number(rest & 127n) | 128);
    rest >>= 7n;
  }
  return [...bytes, Number(rest)];
}
