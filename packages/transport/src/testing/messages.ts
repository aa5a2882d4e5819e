// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  CreateWorldResponseSchema,
  EnvironmentStateType,
  JoinWorldRequestSchema,
} from "@dm-env-rpc/protocol";
import type { Malformed, ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";

/** Creates a small request that carries a name. */
export function named(worldName: string): ProcessRequest {
  return { case: "joinWorld", value: create(JoinWorldRequestSchema, { worldName }) };
}

/** Returns the name that a request of `named` carries. */
export function nameOf(request: ProcessRequest | Malformed | undefined): string {
  return request?.case === "joinWorld" ? request.value.worldName : `no name: ${request?.case}`;
}

/** Creates a small response that carries a name. */
export function answered(worldName: string): ProcessResponse {
  return { case: "createWorld", value: create(CreateWorldResponseSchema, { worldName }) };
}

/** Returns the name that a response of `answered` carries. */
export function answerOf(response: ProcessResponse | Malformed | undefined): string {
  return response?.case === "createWorld" ? response.value.worldName : `no name: ${response?.case}`;
}

/** Creates a step request with one uint8 tensor of `bytes` bytes. */
export function stepRequest(bytes: number, fill = 7): ProcessRequest {
  const data = new Uint8Array(bytes).fill(fill);
  return {
    case: "step",
    value: {
      actions: [{ uid: 1, tensor: { dtype: "uint8", shape: [bytes], data } }],
      requestedObservations: [1, 2],
    },
  };
}

/** Creates a step response with one uint8 tensor of `bytes` bytes. */
export function stepResponse(bytes: number, fill = 7): ProcessResponse {
  const data = new Uint8Array(bytes).fill(fill);
  return {
    case: "step",
    value: {
      state: EnvironmentStateType.RUNNING,
      observations: [{ uid: 1, tensor: { dtype: "uint8", shape: [bytes], data } }],
    },
  };
}
