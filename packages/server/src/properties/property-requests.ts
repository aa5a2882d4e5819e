// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { type Tensor as TensorMessage, TensorSpecSchema } from "@dm-env-rpc/protocol";
import {
  type PropertyRequest,
  type PropertyResponse,
  PropertyResponseSchema,
} from "@dm-env-rpc/protocol/properties";
import { DmEnvRpcError, type PackedTensor, packFor } from "@dm-env-rpc/tensor-codec";
import { packSpec, packTensor } from "@dm-env-rpc/tensor-codec/proto";
import { messageOf } from "@dm-env-rpc/transport/internal";
import type { AgentId } from "../definition/agent.ts";
import { exactValue } from "../definition/exact.ts";
import { type Roles, requireRole } from "../definition/roles.ts";
import { type TensorLimits, unpackLimited } from "../engine/tensor-limits.ts";
import type { Question } from "./author-questions.ts";
import {
  findProperty,
  listProperties,
  type PropertyEntry,
  type PropertyLayer,
} from "./property-index.ts";

/** Properties that a client can access, and its permissions. */
export interface PropertyContext {
  /** The layer of the joined world first, then the layer of the server. */
  readonly layers: readonly PropertyLayer[];
  readonly agent: AgentId | undefined;
  readonly roles: Roles;
  /** Limits of a written value. */
  readonly limits: TensorLimits;
}

/**
 * Reads a property.
 *
 * @throws DmEnvRpcError NOT_FOUND, or PERMISSION_DENIED if it cannot be read.
 */
export async function readProperty(context: PropertyContext, key: string): Promise<PackedTensor> {
  const { layer, entry } = findProperty(context.layers, key);
  const { property } = entry;
  if (property?.read === undefined) {
    throw new DmEnvRpcError("PERMISSION_DENIED", `the property "${key}" cannot be read`);
  }
  const question: Question = { of: "properties", name: key, mayChange: false };
  const value = await layer.call(question, () => property.read?.(context.agent));
  try {
    return packFor(value, property.spec, key);
  } catch (error) {
    throw new DmEnvRpcError("INTERNAL", `the property ${messageOf(error)}`, { cause: error });
  }
}

/**
 * Writes a property. A number may have any numeric dtype that represents it exactly.
 *
 * @throws DmEnvRpcError NOT_FOUND, or PERMISSION_DENIED if the property cannot be written, or the
 * connection is not an operator; INVALID_ARGUMENT without a value.
 * @throws TensorError if the value does not fit the property's spec, or exceeds a limit.
 */
export async function writeProperty(
  context: PropertyContext,
  key: string,
  message: TensorMessage | undefined,
): Promise<void> {
  requireRole(context.roles, "operator", "write a property");
  const { layer, entry } = findProperty(context.layers, key);
  const { property } = entry;
  if (property?.write === undefined) {
    throw new DmEnvRpcError("PERMISSION_DENIED", `the property "${key}" cannot be written`);
  }
  if (message === undefined) {
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `expected a value for the property "${key}", received none`,
    );
  }
  const packed = unpackLimited(message, context.limits, key);
  const value = exactValue(packed, property.spec, key);
  const question: Question = { of: "properties", name: key, mayChange: true };
  await layer.call(question, () => property.write?.(value, context.agent));
}

/** Answers a request of the properties extension. */
export async function answerPropertyRequest(
  { payload }: PropertyRequest,
  context: PropertyContext,
): Promise<PropertyResponse> {
  switch (payload.case) {
    case "readProperty": {
      const value = packTensor(await readProperty(context, payload.value.key));
      return create(PropertyResponseSchema, {
        payload: { case: "readProperty", value: { value } },
      });
    }
    case "writeProperty": {
      await writeProperty(context, payload.value.key, payload.value.value);
      return create(PropertyResponseSchema, { payload: { case: "writeProperty", value: {} } });
    }
    case "listProperty": {
      const values = listProperties(context.layers, payload.value.key).map((entry) => ({
        spec: specMessage(entry),
        isReadable: entry.property?.read !== undefined,
        isWritable: entry.property?.write !== undefined,
        isListable: entry.children !== undefined,
        description: entry.property?.description ?? "",
      }));
      return create(PropertyResponseSchema, {
        payload: { case: "listProperty", value: { values } },
      });
    }
    case undefined:
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        "expected a PropertyRequest with a payload: read_property, write_property or list_property; received none",
      );
  }
}

/**
 * Returns the spec of an entry as sent: an entry that can only be listed has neither dtype nor
 * shape.
 */
export function specMessage({ key, spec }: PropertyEntry): ReturnType<typeof packSpec> {
  return spec === undefined ? create(TensorSpecSchema, { name: key }) : packSpec(key, spec);
}
