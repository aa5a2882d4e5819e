// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  DataType,
  ListPropertyRequestSchema,
  ReadPropertyRequestSchema,
  type Tensor as TensorMessage,
  type TensorSpec as TensorSpecMessage,
  WritePropertyRequestSchema,
} from "@dm-env-rpc/protocol";
import {
  type PropertyRequest,
  PropertyRequestSchema,
  type PropertyResponse,
  PropertyResponseSchema,
} from "@dm-env-rpc/protocol/properties";
import { DmEnvRpcError, type PackedTensor, type TensorSpec } from "@dm-env-rpc/tensor-codec";
import { packTensor, unpackSpec, unpackTensor } from "@dm-env-rpc/tensor-codec/proto";
import type { Connection } from "../environment/environment.ts";
import type { WaitOptions } from "../stream/wait.ts";
import { sendExtension } from "./extension.ts";

type Sender = Pick<Connection, "send">;

/** Description of a property. */
export interface PropertyInfo {
  readonly key: string;
  /** Undefined for a property that only lists others. */
  readonly spec: TensorSpec | undefined;
  readonly readable: boolean;
  readonly writable: boolean;
  readonly listable: boolean;
  /** Human-readable text; empty if the server has none. */
  readonly description: string;
}

/** A protocol for properties. */
export interface PropertyProtocol {
  read(to: Sender, key: string, wait: WaitOptions | undefined): Promise<PackedTensor>;
  write(to: Sender, key: string, value: PackedTensor, wait: WaitOptions | undefined): Promise<void>;
  list(to: Sender, key: string, wait: WaitOptions | undefined): Promise<PropertyInfo[]>;
}

/** Accesses properties through the extension, for servers of protocol 1.1 or later. */
export const extensionProtocol: PropertyProtocol = {
  async read(to, key, wait) {
    const response = await ask(to, { case: "readProperty", value: { key } }, wait);
    return readValue(key, response.value.value);
  },
  async write(to, key, value, wait) {
    await ask(to, { case: "writeProperty", value: { key, value: packTensor(value) } }, wait);
  },
  async list(to, key, wait) {
    const response = await ask(to, { case: "listProperty", value: { key } }, wait);
    return response.value.values.map((property) => ({
      key: property.spec?.name ?? "",
      spec: specOf(property.spec),
      readable: property.isReadable,
      writable: property.isWritable,
      listable: property.isListable,
      description: property.description,
    }));
  },
};

/** Accesses properties through the requests of protocol 1.0. */
export const legacyProtocol: PropertyProtocol = {
  async read(to, key, wait) {
    const value = create(ReadPropertyRequestSchema, { keys: [key] });
    const response = await to.send({ case: "readProperty", value }, wait);
    return readValue(key, response.value.properties[key]);
  },
  async write(to, key, value, wait) {
    const properties = { [key]: packTensor(value) };
    const request = create(WritePropertyRequestSchema, { properties });
    await to.send({ case: "writeProperty", value: request }, wait);
  },
  async list(to, key, wait) {
    const value = create(ListPropertyRequestSchema, { keys: [key] });
    const response = await to.send({ case: "listProperty", value }, wait);
    return Object.entries(response.value.properties).map(([name, property]) => ({
      key: name,
      spec: specOf(property.spec),
      readable: property.isReadable,
      writable: property.isWriteable,
      listable: property.isListable,
      description: "",
    }));
  },
};

const extension = { request: PropertyRequestSchema, response: PropertyResponseSchema };

type Payload = Exclude<MessageInitShape<typeof PropertyRequestSchema>["payload"], undefined>;

async function ask<Case extends Exclude<PropertyRequest["payload"]["case"], undefined>>(
  to: Sender,
  payload: Payload & { readonly case: Case },
  wait: WaitOptions | undefined,
): Promise<Extract<PropertyResponse["payload"], { case: Case }>> {
  const response = await sendExtension(to, extension, { payload }, wait);
  if (isCase(response.payload, payload.case)) {
    return response.payload;
  }
  throw new DmEnvRpcError(
    "INTERNAL",
    `expected ${payload.case} in the response about a property, received ${response.payload.case ?? "nothing"}; the server breaks the extension's contract`,
    { origin: "connection" },
  );
}

function isCase<Case extends PropertyResponse["payload"]["case"]>(
  payload: PropertyResponse["payload"],
  expected: Case,
): payload is Extract<PropertyResponse["payload"], { case: Case }> {
  return payload.case === expected;
}

function readValue(key: string, value: TensorMessage | undefined): PackedTensor {
  if (value !== undefined) {
    return unpackTensor(value);
  }
  throw new DmEnvRpcError(
    "INTERNAL",
    `expected the value of the property "${key}", received a response without it; the server breaks the protocol`,
    { origin: "connection" },
  );
}

/** Returns the spec of a property; undefined for a property that only lists others, whose spec has no dtype. */
function specOf(spec: TensorSpecMessage | undefined): TensorSpec | undefined {
  if (spec === undefined || spec.dtype === DataType.INVALID_DATA_TYPE) {
    return undefined;
  }
  return unpackSpec(spec).spec;
}
