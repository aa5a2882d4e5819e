// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  type EnvironmentRequest,
  ListPropertyResponseSchema,
  ReadPropertyResponseSchema,
  type Tensor as TensorMessage,
  WritePropertyResponseSchema,
} from "@dm-env-rpc/protocol";
import { packTensor } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { findProperty, listProperties } from "./property-index.ts";
import {
  type PropertyContext,
  readProperty,
  specMessage,
  writeProperty,
} from "./property-requests.ts";

/** The requests with which 1.0.x peers access properties, several keys at once. */
export type LegacyPropertyRequest = Extract<
  EnvironmentRequest["payload"],
  { case: "readProperty" | "writeProperty" | "listProperty" }
>;

/**
 * Answers a property request of a 1.0.x peer. A repeated key is answered once. A write checks that
 * all keys exist before it writes any. Values are validated one by one, so if one is refused, the
 * earlier writes remain.
 */
export async function answerLegacyRequest(
  request: LegacyPropertyRequest,
  context: PropertyContext,
): Promise<ProcessResponse> {
  switch (request.case) {
    case "readProperty": {
      const properties: Record<string, TensorMessage> = {};
      for (const key of new Set(request.value.keys)) {
        properties[key] = packTensor(await readProperty(context, key));
      }
      return { case: request.case, value: create(ReadPropertyResponseSchema, { properties }) };
    }
    case "writeProperty": {
      const entries = Object.entries(request.value.properties);
      for (const [key] of entries) {
        findProperty(context.layers, key);
      }
      for (const [key, value] of entries) {
        await writeProperty(context, key, value);
      }
      return { case: request.case, value: create(WritePropertyResponseSchema) };
    }
    case "listProperty": {
      const keys = [...new Set(request.value.keys)];
      const entries = keys.flatMap((key) => listProperties(context.layers, key));
      const properties = Object.fromEntries(
        entries.map((entry) => [
          entry.key,
          {
            isReadable: entry.property?.read !== undefined,
            isWriteable: entry.property?.write !== undefined,
            isListable: entry.children !== undefined,
            spec: specMessage(entry),
          },
        ]),
      );
      return { case: request.case, value: create(ListPropertyResponseSchema, { properties }) };
    }
  }
}
