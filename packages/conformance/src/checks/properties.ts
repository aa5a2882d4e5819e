// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { anyPack, anyUnpack } from "@bufbuild/protobuf/wkt";
import {
  ListPropertyRequestSchema,
  ReadPropertyRequestSchema,
  type Tensor as TensorMessage,
} from "@dm-env-rpc/protocol";
import {
  type PropertyRequest,
  PropertyRequestSchema,
  type PropertyResponse,
  PropertyResponseSchema,
  type PropertySpec,
} from "@dm-env-rpc/protocol/properties";
import { packTensor, unpackSpec } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { type AgentConnection, textOf } from "../agent-connection.ts";
import { type Check, checksOf } from "../check.ts";
import type { ConformanceConfig } from "../config.ts";
import { expectThat, Mismatch } from "../mismatch.ts";
import { needed } from "../nothing-to-check.ts";
import { ofAnotherDType } from "../samples.ts";

type Payload = MessageInitShape<typeof PropertyRequestSchema>["payload"];

const needs =
  (protocol: "extension" | "legacy") =>
  ({ properties = "none" }: ConformanceConfig): string | undefined =>
    properties === protocol || properties === "both"
      ? undefined
      : `"properties" of the config is "${properties}"`;

function ask(agent: AgentConnection, payload: NonNullable<Payload>): Promise<ProcessResponse> {
  const request: PropertyRequest = create(PropertyRequestSchema, { payload });
  return agent.send({ case: "extension", value: anyPack(PropertyRequestSchema, request) });
}

async function answered(
  agent: AgentConnection,
  payload: NonNullable<Payload>,
): Promise<PropertyResponse> {
  const response = await ask(agent, payload);
  expectThat(response.case === "extension", "an answer of the extension", () => textOf(response));
  const unpacked = anyUnpack(response.value, PropertyResponseSchema);
  if (unpacked === undefined) {
    throw new Mismatch("a PropertyResponse", response.value.typeUrl);
  }
  expectThat(
    unpacked.payload.case === payload.case,
    `an answer to ${payload.case}`,
    `${unpacked.payload.case}`,
  );
  return unpacked;
}

async function list(agent: AgentConnection, key: string): Promise<readonly PropertySpec[]> {
  const { payload } = await answered(agent, { case: "listProperty", value: { key } });
  return payload.case === "listProperty" ? payload.value.values : [];
}

async function read(agent: AgentConnection, key: string): Promise<TensorMessage> {
  const { payload } = await answered(agent, { case: "readProperty", value: { key } });
  const value = payload.case === "readProperty" ? payload.value.value : undefined;
  if (value === undefined) {
    throw new Mismatch(`a value of "${key}"`, "none");
  }
  return value;
}

/** Returns every property below a key, recursively. */
async function tree(agent: AgentConnection, key = "", found = new Map<string, PropertySpec>()) {
  for (const property of await list(agent, key)) {
    const name = property.spec?.name ?? "";
    expectThat(name !== "" && !found.has(name), "a unique key for each property", `"${name}"`);
    found.set(name, property);
    if (property.isListable) {
      await tree(agent, name, found);
    }
  }
  return found;
}

async function codeOf(agent: AgentConnection, payload: NonNullable<Payload>): Promise<string> {
  const response = await ask(agent, payload);
  return response.case === "error" ? `error ${response.value.code}` : textOf(response);
}

/** A value for properties that cannot be written. */
const anything = packTensor(ofAnotherDType({ dtype: "int8", shape: [] }));

const unknown = "there.is.no.property.of.this.name";

/** Behaviours 45 and 46: properties, through the extension and the requests of 1.0. */
export const propertyChecks: readonly Check[] = [
  ...checksOf(45, 'extensions/properties.md, "Properties"', {
    tree: {
      title: "The empty key lists the root; listable properties can be listed, readable ones read.",
      notFor: needs("extension"),
      async run(stage) {
        const agent = await stage.agent();
        for (const [key, { isReadable }] of await tree(agent)) {
          if (isReadable) {
            await read(agent, key);
          }
        }
      },
    },
    "write-back": {
      title: "A readable and writable property accepts its own value.",
      notFor: needs("extension"),
      async run(stage) {
        const agent = await stage.agent();
        const both = [...(await tree(agent))].filter(([, p]) => p.isReadable && p.isWritable);
        for (const [key] of needed(both, "property that can be read and written")) {
          const value = await read(agent, key);
          await answered(agent, { case: "writeProperty", value: { key, value } });
        }
      },
    },
    "legacy-requests": {
      title: "The requests of 1.0 list the root, and read several keys at once.",
      notFor: needs("legacy"),
      async run(stage) {
        const agent = await stage.agent();
        const listed = await agent.accepted<"listProperty">({
          case: "listProperty",
          value: create(ListPropertyRequestSchema, { keys: [""] }),
        });
        const keys = Object.entries(listed.properties)
          .filter(([, { isReadable }]) => isReadable)
          .map(([key]) => key);
        const { properties } = await agent.accepted<"readProperty">({
          case: "readProperty",
          value: create(ReadPropertyRequestSchema, { keys }),
        });
        const received = Object.keys(properties).sort().join();
        expectThat(received === keys.sort().join(), `properties ${keys}`, received);
        const strange = create(ReadPropertyRequestSchema, { keys: [unknown] });
        await agent.refused({ case: "readProperty", value: strange }, "a read of an unknown key");
      },
    },
  }),
  ...checksOf(46, 'extensions/properties.md, "Properties"', {
    "unknown-key": {
      title: "An unknown key is NOT_FOUND.",
      notFor: needs("extension"),
      async run(stage) {
        const connection = await stage.connect();
        const code = await codeOf(connection, { case: "readProperty", value: { key: unknown } });
        expectThat(code === "error 5", "error 5 (NOT_FOUND) for a read", code);
        const listed = await codeOf(connection, { case: "listProperty", value: { key: unknown } });
        expectThat(listed === "error 5", "error 5 (NOT_FOUND) for a list", listed);
      },
    },
    "not-permitted": {
      title: "An operation that a property does not allow is PERMISSION_DENIED.",
      notFor: needs("extension"),
      async run(stage) {
        const agent = await stage.agent();
        const denied = async (payload: NonNullable<Payload>, what: string): Promise<void> => {
          const code = await codeOf(agent, payload);
          expectThat(code === "error 7", `error 7 (PERMISSION_DENIED) for ${what}`, code);
        };
        for (const [key, { isReadable, isWritable, isListable }] of await tree(agent)) {
          const value = { key };
          const written = { key, value: isReadable ? await read(agent, key) : anything };
          if (!isReadable) {
            await denied({ case: "readProperty", value }, `a read of "${key}"`);
          }
          if (!isListable) {
            await denied({ case: "listProperty", value }, `a list of "${key}"`);
          }
          if (isWritable) {
            continue;
          }
          await denied({ case: "writeProperty", value: written }, `a write of "${key}"`);
        }
      },
    },
    "bad-value": {
      title: "A write of another dtype is INVALID_ARGUMENT.",
      notFor: needs("extension"),
      async run(stage) {
        const agent = await stage.agent();
        const open = [...(await tree(agent)).values()].filter(({ isWritable }) => isWritable);
        for (const { spec } of needed(open, "property that can be written")) {
          if (spec === undefined) {
            throw new Mismatch("a spec of each property", "none");
          }
          const { name, spec: expected } = unpackSpec(spec);
          const value = packTensor(ofAnotherDType(expected));
          const code = await codeOf(agent, { case: "writeProperty", value: { key: name, value } });
          expectThat(code === "error 3", `error 3 (INVALID_ARGUMENT) for "${name}"`, code);
        }
      },
    },
    "universal-after-a-join": {
      title: "Properties listed before a join are still listed after it.",
      notFor: needs("extension"),
      async run(stage) {
        const agent = await stage.agent();
        const outside = await tree(await stage.connect());
        const inside = await tree(agent);
        for (const key of outside.keys()) {
          expectThat(inside.has(key), `"${key}" after a join too`, "none");
        }
      },
    },
  }),
];
