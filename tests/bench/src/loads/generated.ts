// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type EnvironmentRequest,
  EnvironmentRequestSchema,
  type EnvironmentResponse,
  EnvironmentResponseSchema,
  EnvironmentStateType,
  type Tensor,
  type TensorSchema,
} from "@dm-env-rpc/protocol";

type TensorInit = MessageInitShape<typeof TensorSchema>;

/** A game played through generated messages, as a server and a client would by hand. */
export interface GeneratedGame {
  /** Takes the action of a step. */
  step(move: number): void;
  /** Packs observation number `uid`, counted from 1. */
  pack(uid: number): TensorInit;
}

/** Answers one request: advances the game and packs the requested observations. */
export function answerGenerated(
  game: GeneratedGame,
  { payload }: EnvironmentRequest,
): EnvironmentResponse {
  if (payload.case !== "step") {
    throw new Error(`expected a step, received ${payload.case ?? "nothing"}`);
  }
  const { actions, requestedObservations } = payload.value;
  const action = actions["1"];
  if (action?.payload.case !== "int8s") {
    throw new Error("expected the action 1 as int8");
  }
  game.step(((action.payload.value.array[0] ?? 0) << 24) >> 24);
  const observations: Record<string, TensorInit> = {};
  for (const uid of requestedObservations) {
    observations[String(uid)] = game.pack(Number(uid));
  }
  return create(EnvironmentResponseSchema, {
    payload: { case: "step", value: { state: EnvironmentStateType.RUNNING, observations } },
  });
}

/** Creates a step request for `count` observations. */
export function generatedRequest(move: number, count: number): EnvironmentRequest {
  return create(EnvironmentRequestSchema, {
    payload: {
      case: "step",
      value: {
        actions: { "1": { payload: { case: "int8s", value: { array: Uint8Array.of(move) } } } },
        requestedObservations: Array.from({ length: count }, (_, i) => BigInt(i + 1)),
      },
    },
  });
}

/** The observations of a response, by UID. */
export function observationsOf({ payload }: EnvironmentResponse): {
  readonly [uid: string]: Tensor;
} {
  if (payload.case !== "step" || payload.value.state !== EnvironmentStateType.RUNNING) {
    throw new Error(`expected a step that is RUNNING, received ${payload.case ?? "nothing"}`);
  }
  return payload.value.observations;
}

/** Packs one number as float32. */
export const packFloat = (value: number): TensorInit => ({
  payload: { case: "floats", value: { array: [value] } },
});

/** Packs bytes. */
export const packBytes = (shape: readonly number[], array: Uint8Array): TensorInit => ({
  payload: { case: "uint8s", value: { array: array as Uint8Array<ArrayBuffer> } },
  shape: [...shape],
});

/** Packs floats: generated messages hold them as plain numbers. */
export const packFloats = (shape: readonly number[], array: Float32Array): TensorInit => ({
  payload: { case: "floats", value: { array: Array.from(array) } },
  shape: [...shape],
});

/** Returns the number in a float32 tensor. */
export function unpackFloat(tensor: Tensor | undefined): number | undefined {
  return tensor?.payload.case === "floats" ? tensor.payload.value.array[0] : undefined;
}

/** Returns the bytes of a uint8 tensor, checked against its shape. */
export function unpackBytes(tensor: Tensor | undefined, shape: readonly number[]): Uint8Array {
  if (tensor?.payload.case !== "uint8s") {
    throw new Error("expected a uint8 tensor");
  }
  checkShape(tensor, shape);
  return tensor.payload.value.array;
}

/** The floats of a float32 tensor as a typed array, checked against its shape. */
export function unpackFloats(tensor: Tensor | undefined, shape: readonly number[]): Float32Array {
  if (tensor?.payload.case !== "floats") {
    throw new Error("expected a float32 tensor");
  }
  checkShape(tensor, shape);
  return Float32Array.from(tensor.payload.value.array);
}

function checkShape(tensor: Tensor, shape: readonly number[]): void {
  if (tensor.shape.length === shape.length && shape.every((n, i) => n === tensor.shape[i])) {
    return;
  }
  throw new Error(`expected shape [${shape.join()}], received [${tensor.shape.join()}]`);
}
