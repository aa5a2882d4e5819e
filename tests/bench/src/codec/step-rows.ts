// SPDX-License-Identifier: Apache-2.0
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { EnvironmentRequestSchema, EnvironmentResponseSchema } from "@dm-env-rpc/protocol";
import { packFor, t } from "@dm-env-rpc/tensor-codec";
import {
  createRequestCodec,
  createResponseCodec,
  type MessageCodec,
  type ProcessRequest,
  type ProcessResponse,
} from "@dm-env-rpc/tensor-codec/wire";
import { loadProtobufjs } from "./protobufjs.ts";
import type { Race } from "./tensor-rows.ts";

const actionSpec = t.int32({ min: 0, max: 9 });
const rewardSpec = t.float32();
const boardSpec = t.uint8([10, 5]);

const move = 3;
const reward = 0.5;
const discount = 1;

/**
 * The two small step messages: one action and three requested UIDs out, two float scalars and a
 * board of 10 × 5 bytes back. `ready` starts from tensors, `packing` from plain values; the
 * generated code has to build messages from its input in both cases.
 */
export function stepRaces(): readonly Race[] {
  const board = Uint8Array.from({ length: 50 }, (_, i) => i % 3);
  const request = (): ProcessRequest => ({
    case: "step",
    value: {
      actions: [{ uid: 1, tensor: packFor(move, actionSpec, "move") }],
      requestedObservations: [1, 2, 3],
    },
  });
  const response = (): ProcessResponse => ({
    case: "step",
    value: {
      state: 1,
      observations: [
        { uid: 1, tensor: packFor(reward, rewardSpec, "reward") },
        { uid: 2, tensor: packFor(discount, rewardSpec, "discount") },
        { uid: 3, tensor: packFor(board, boardSpec, "board") },
      ],
    },
  });
  return [
    ...racesOf("StepRequest", "EnvironmentRequest", createRequestCodec(), request, (bytes) => ({
      encode: () => toBinary(EnvironmentRequestSchema, generatedRequest()),
      decode: () => fromBinary(EnvironmentRequestSchema, bytes),
    })),
    ...racesOf("StepResponse", "EnvironmentResponse", createResponseCodec(), response, (bytes) => ({
      encode: () => toBinary(EnvironmentResponseSchema, generatedResponse(board)),
      decode: () => fromBinary(EnvironmentResponseSchema, bytes),
    })),
  ];
}

function racesOf<T>(
  what: string,
  typeName: string,
  codec: MessageCodec<T>,
  make: () => T,
  generated: (bytes: Uint8Array) => { encode: () => unknown; decode: () => unknown },
): readonly Race[] {
  const protobufjs = loadProtobufjs(`dm_env_rpc.v1.${typeName}`);
  const ready = make();
  // As in the transport: many messages share one buffer.
  const target = new Uint8Array(1024);
  const encode = (message: T) => {
    codec.size(message);
    return codec.write(message, target, 0);
  };
  const bytes = target.slice(0, encode(ready));
  const foreign = protobufjs.type.toObject(protobufjs.type.decode(bytes));
  const theirs = generated(bytes);
  const encodeForeign = () => protobufjs.encode(protobufjs.type.fromObject(foreign));
  return [
    {
      what: `encode ${what}, ready`,
      contestants: [
        { name: "generated", run: theirs.encode },
        { name: "protobufjs", run: encodeForeign },
        { name: "ours", run: () => encode(ready) },
      ],
      goals: [{ against: "generated", speed: 10 }],
    },
    {
      what: `encode ${what}, packing`,
      contestants: [
        { name: "generated", run: theirs.encode },
        { name: "protobufjs", run: encodeForeign },
        { name: "ours", run: () => encode(make()) },
      ],
      goals: [{ against: "generated", speed: 3 }],
    },
    {
      what: `decode ${what}`,
      contestants: [
        { name: "generated", run: theirs.decode },
        { name: "protobufjs", run: () => protobufjs.decode(bytes) },
        { name: "ours", run: () => codec.read(bytes, 0, bytes.length) },
      ],
      goals: [{ against: "generated", speed: 5 }],
    },
  ];
}

const generatedRequest = () =>
  create(EnvironmentRequestSchema, {
    payload: {
      case: "step",
      value: {
        actions: { "1": { payload: { case: "int32s", value: { array: [move] } } } },
        requestedObservations: [1n, 2n, 3n],
      },
    },
  });

const generatedResponse = (board: Uint8Array) =>
  create(EnvironmentResponseSchema, {
    payload: {
      case: "step",
      value: {
        state: 1,
        observations: {
          "1": { payload: { case: "floats", value: { array: [reward] } } },
          "2": { payload: { case: "floats", value: { array: [discount] } } },
          "3": { payload: { case: "uint8s", value: { array: board } }, shape: [10, 5] },
        },
      },
    },
  });
