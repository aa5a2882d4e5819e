// SPDX-License-Identifier: Apache-2.0
import { dtypes, elementCount, type PackedTensor, type Tensor } from "@dm-env-rpc/tensor-codec";
import { textOf } from "../agent-connection.ts";
import { type Check, checksOf } from "../check.ts";
import { expectThat } from "../mismatch.ts";
import { needed } from "../nothing-to-check.ts";
import { rawRequest } from "../raw-request.ts";
import {
  act,
  filler,
  ofAnotherDType,
  refusesAction,
  runningAgent,
  shapeFor,
  uidsOf,
  valueFor,
} from "../samples.ts";
import { bytesField, unusualSteps, varint } from "../wire-bytes.ts";

const onlyOverGrpc: Check["notFor"] = (_config, protocol) =>
  protocol === "grpc" ? undefined : "such bytes are sent over gRPC only";

function withShape(tensor: Tensor, shape: readonly number[]): PackedTensor {
  return { ...tensor, shape } as PackedTensor;
}

/** Behaviours 10–14: tensors, tested with the actions that a world accepts. */
export const tensorChecks: readonly Check[] = [
  ...checksOf(10, 'overview.md, "Tensors"', {
    "one-element-in-a-scalar": {
      title: "A scalar action with two elements, or with none, is refused.",
      async run(stage) {
        const agent = await runningAgent(stage);
        const scalars = agent.actions.entries.filter(({ spec }) => spec.shape.length === 0);
        for (const entry of needed(scalars, "scalar action")) {
          for (const count of [2, 0]) {
            const data = dtypes[entry.spec.dtype].allocate(count);
            const tensor = { dtype: entry.spec.dtype, shape: [], data } as unknown as PackedTensor;
            await refusesAction(agent, entry, tensor, `${count} elements and no shape`);
          }
        }
      },
    },
    "wrong-shape": {
      title: "An action with one dimension too many is refused.",
      async run(stage) {
        const agent = await runningAgent(stage);
        for (const entry of needed(agent.actions.entries, "action")) {
          const shape = [...shapeFor(entry.spec), 1];
          const tensor = withShape(valueFor(entry.spec), shape);
          await refusesAction(agent, entry, tensor, `shape [${shape}] for [${entry.spec.shape}]`);
        }
      },
    },
    ragged: {
      title: "An action with one element too many for its shape is refused.",
      async run(stage) {
        const agent = await runningAgent(stage);
        const arrays = agent.actions.entries.filter(({ spec }) => spec.shape.length > 0);
        for (const entry of needed(arrays, "action with dimensions")) {
          const { dtype } = entry.spec;
          const shape = shapeFor(entry.spec);
          const count = elementCount(shape) + 1;
          const tensor = { dtype, shape, data: dtypes[dtype].allocate(count) } as PackedTensor;
          await refusesAction(agent, entry, tensor, `${count} elements and shape [${shape}]`);
        }
      },
    },
  }),
  ...checksOf(11, 'overview.md, "Variable lengths"', {
    "inferred-dimension": {
      title: "An action whose first dimension is -1 is accepted, and its length is inferred.",
      async run(stage) {
        const agent = await runningAgent(stage);
        const arrays = agent.actions.entries.filter(({ spec }) => {
          const shape = shapeFor(spec);
          return shape.length > 0 && !shape.includes(0);
        });
        for (const entry of needed(arrays, "action with dimensions")) {
          const [, ...rest] = shapeFor(entry.spec);
          await agent.step([], [act(entry, withShape(valueFor(entry.spec), [-1, ...rest]))]);
        }
      },
    },
    "two-variable-dimensions": {
      title: "An action with two variable dimensions is refused.",
      async run(stage) {
        const agent = await runningAgent(stage);
        const matrices = agent.actions.entries.filter(({ spec }) => spec.shape.length > 1);
        for (const entry of needed(matrices, "action with two dimensions")) {
          const [, , ...rest] = shapeFor(entry.spec);
          const tensor = withShape(valueFor(entry.spec), [-1, -1, ...rest]);
          await refusesAction(agent, entry, tensor, "two variable dimensions");
        }
      },
    },
  }),
  ...checksOf(12, 'overview.md, "Broadcastable"', {
    "one-element-fills": {
      title: "One element fills the shape of an action.",
      async run(stage) {
        const agent = await runningAgent(stage);
        const arrays = agent.actions.entries.flatMap((entry) => {
          const one = elementCount(shapeFor(entry.spec)) > 1 ? filler(entry.spec) : undefined;
          return one === undefined ? [] : [{ entry, one }];
        });
        const what = "action of several elements that may have one value";
        for (const { entry, one } of needed(arrays, what)) {
          await agent.step([], [act(entry, one)]);
        }
      },
    },
    "variable-is-one": {
      title: "One element makes a variable dimension 1.",
      async run(stage) {
        const agent = await runningAgent(stage);
        const open = agent.actions.entries.filter(({ spec }) => spec.shape.some((n) => n < 0));
        for (const entry of needed(open, "action of variable length")) {
          const one = filler(entry.spec);
          if (one === undefined) {
            continue;
          }
          await agent.step([], [act(entry, withShape(one, entry.spec.shape))]);
        }
      },
    },
  }),
  ...checksOf(13, 'reference.md, "StepRequest/Response"', {
    "no-cast": {
      title: "An action of another dtype is refused, whatever its value.",
      async run(stage) {
        const agent = await runningAgent(stage);
        for (const entry of needed(agent.actions.entries, "action")) {
          await refusesAction(agent, entry, ofAnotherDType(entry.spec), "another dtype");
        }
      },
    },
  }),
  ...checksOf(14, 'dm_env_rpc.proto, "Tensor"', {
    "packed-or-not": {
      title: "Requested UIDs are read the same way, packed or not.",
      notFor: onlyOverGrpc,
      async run(stage) {
        const agent = await runningAgent(stage);
        const uids = uidsOf(agent.observations).slice(0, 2);
        const varints = uids.map((uid) => varint(BigInt(uid)));
        const inner = {
          packed: bytesField(2, varints.flat()),
          "one by one": varints.flatMap((bytes) => [0x10, ...bytes]),
        };
        for (const [how, bytes] of Object.entries(inner)) {
          const response = await agent.send(rawRequest(bytesField(3, bytes)));
          const received =
            response.case === "step" ? response.value.observations.map(({ uid }) => uid) : [];
          expectThat(
            received.length === uids.length && uids.every((uid) => received.includes(uid)),
            `observations ${uids.join()} for uids ${how}`,
            received.join() || textOf(response),
          );
        }
      },
    },
    "tensors-packed-or-not": {
      title: "Numbers of an action are read the same way, packed in chunks or not packed.",
      notFor: onlyOverGrpc,
      async run(stage) {
        const agent = await runningAgent(stage);
        const steps = agent.actions.entries.flatMap(({ uid, name, spec }) =>
          unusualSteps(uid, valueFor(spec)).map(([how, bytes]) => ({ what: name, how, bytes })),
        );
        for (const { what, how, bytes } of needed(
          steps,
          "action of numbers that have two encodings (int8 and uint8 have one)",
        )) {
          const response = await agent.send(rawRequest(bytes));
          expectThat(response.case === "step", `the action "${what}" to be accepted ${how}`, () =>
            textOf(response),
          );
        }
      },
    },
  }),
];
