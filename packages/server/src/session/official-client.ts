// SPDX-License-Identifier: Apache-2.0
import { clone, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type ActionObservationSpecs,
  ActionObservationSpecsSchema,
  type TensorSpec as TensorSpecMessage,
} from "@dm-env-rpc/protocol";
import { PropertyResponseSchema } from "@dm-env-rpc/protocol/properties";
import { dtypes, isVariable } from "@dm-env-rpc/tensor-codec";
import { unpackSpec } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import type { Peer } from "@dm-env-rpc/transport";

/**
 * Returns the workaround for a peer that is the official Python client, by its user agent;
 * undefined for every other peer.
 *
 * `dm_env_rpc` up to 1.1.7 converts specs to `dm_env` specs, for all actions or observations at
 * once, and raises on two kinds of bounds: on a variable-length spec (`dm_env` broadcasts them to
 * the shape, -1 included), and on a scalar integer from 0 to its dtype's maximum (it adds one to
 * the maximum, in the same dtype). The workaround omits these bounds; the server still checks them.
 */
export function workaroundFor({
  metadata,
}: Peer): ((response: ProcessResponse) => ProcessResponse) | undefined {
  const userAgent = metadata.get("user-agent") ?? "";
  return /(^| )grpc-python(-asyncio)?\//.test(userAgent) ? withUsableBounds : undefined;
}

/** Returns true for responses that may have specs: the workaround changes no others. */
export function mayHaveSpecs({ case: kind }: ProcessResponse): boolean {
  return kind === "joinWorld" || kind === "reset" || kind === "extension";
}

function withUsableBounds(response: ProcessResponse): ProcessResponse {
  switch (response.case) {
    case "joinWorld":
    case "reset": {
      const { specs } = response.value;
      if (specs === undefined) {
        return response;
      }
      return {
        case: response.case,
        value: { ...response.value, specs: usable(specs) },
      } as ProcessResponse;
    }
    case "extension": {
      const { typeUrl, value } = response.value;
      if (!typeUrl.endsWith(`/${PropertyResponseSchema.typeName}`)) {
        return response;
      }
      const message = fromBinary(PropertyResponseSchema, value);
      if (message.payload.case !== "listProperty") {
        return response;
      }
      for (const { spec } of message.payload.value.values) {
        if (spec) {
          leaveOutUnusable(spec);
        }
      }
      return {
        case: "extension",
        value: { ...response.value, value: toBinary(PropertyResponseSchema, message) },
      };
    }
    default:
      return response;
  }
}

/** Copies specs: a world shares the message of its specs between its agents. */
function usable(specs: ActionObservationSpecs): ActionObservationSpecs {
  const copy = clone(ActionObservationSpecsSchema, specs);
  for (const spec of Object.values(copy.actions)) {
    leaveOutUnusable(spec);
  }
  for (const spec of Object.values(copy.observations)) {
    leaveOutUnusable(spec);
  }
  return copy;
}

function leaveOutUnusable(message: TensorSpecMessage): void {
  if (message.min === undefined && message.max === undefined) {
    return;
  }
  const { dtype, shape, min, max } = unpackSpec(message).spec;
  const { range } = dtypes[dtype];
  const countsToTheTop =
    shape.length === 0 &&
    range !== undefined &&
    Number(min ?? range.min) === 0 &&
    (max ?? range.max) === range.max;
  if (!countsToTheTop && !isVariable(shape)) {
    return;
  }
  delete message.min;
  delete message.max;
}
