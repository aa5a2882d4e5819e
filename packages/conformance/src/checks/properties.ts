// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { anyPack, anyUnpack } from "@bufbuild/protobuf/wkt";
import { ListPropertyRequestSchema, ReadPropertyRequestSchema } from "@dm-env-rpc/protocol";
import {
  type PropertyRequest,
  PropertyRequestSchema,
  type PropertyResponse,
  PropertyResponseSchema,
  type PropertySpec,
} from "@dm-env-rpc/protocol/properties";
import type { ProcessResponse } from "@dm-env-rpc/tensor-codec";
import { type Check, checksOf } from "../check.ts";
import type { ConformanceConfig } from "../config.ts";
import { expectThat, Mismatch } from "../mismatch.ts";
import { type Player, textOf } from "../player.ts";

type Payload = MessageInitShape<typeof PropertyRequestSchema>["payload"];

const needs =
  (protocol: "extension" | "legacy") =>
  ({ properties = "none" }: ConformanceConfig): string | undefined =>
    properties === protocol || properties === "both"
      ? undefined
      : `"properties" of the config is "${properties}"`;

function ask(player: Player, payload: NonNullable<Payload>): Promise<ProcessResponse> {
  const request: PropertyRequest = create(PropertyRequestSchema, { payload });
  return player.send({ case: "extension", value: anyPack(PropertyRequestSchema, request) });
}

async function answered(player: Player, payload: NonNullable<Payload>): Promise<PropertyResponse> {
  const response = await ask(player, payload);
  expectThat(response.case === "extension", "an answer of the extension", () => textOf(response));
  const unpacked = anyUnpack(response.value, PropertyResponseSchema);
  if (unpacked === undefined) throw new Mismatch("a PropertyResponse", response.value.typeUrl);
  expectThat(
    unpacked.payload.case === payload.case,
    `an answer to ${payload.case}`,
    `${unpacked.payload.case}`,
  );
  return unpacked;
}

async function list(player: Player, key: string): Promise<readonly PropertySpec[]> {
  const { payload } = await answered(player, { case: "listProperty", value: { key } });
  return payload.case === "listProperty" ? payload.value.values : [];
}

/** Every property under a key, and under those. */
async function tree(player: Player, key = "", found = new Map<string, PropertySpec>()) {
  for (const property of await list(player, key)) {
    const name = property.spec?.name ?? "";
    expectThat(name !== "" && !found.has(name), "a key of its own for each property", `"${name}"`);
    found.set(name, property);
    if (property.isListable) await tree(player, name, found);
  }
  return found;
}

async function codeOf(player: Player, payload: NonNullable<Payload>): Promise<string> {
  const response = await ask(player, payload);
  return response.case === "error" ? `error ${response.value.code}` : textOf(response);
}

const unknown = "there.is.no.property.of.this.name";

/** Behaviours 45 and 46: properties, by the extension and by the requests of 1.0. */
export const propertyChecks: readonly Check[] = [
  ...checksOf(45, 'wire-format.md, "Properties extension"', {
    tree: {
      title:
        "The empty key lists the root; what is listable lists on; what is readable can be read.",
      notFor: needs("extension"),
      async run(stage) {
        const player = await stage.agent();
        for (const [key, { isReadable }] of await tree(player)) {
          if (isReadable) await answered(player, { case: "readProperty", value: { key } });
        }
      },
    },
    "legacy-requests": {
      title: "The requests of 1.0 list the root, and read several keys at once.",
      notFor: needs("legacy"),
      async run(stage) {
        const player = await stage.agent();
        const listed = await player.accepted<"listProperty">({
          case: "listProperty",
          value: create(ListPropertyRequestSchema, { keys: [""] }),
        });
        const keys = Object.entries(listed.properties)
          .filter(([, { isReadable }]) => isReadable)
          .map(([key]) => key);
        const read = await player.accepted<"readProperty">({
          case: "readProperty",
          value: create(ReadPropertyRequestSchema, { keys }),
        });
        const received = Object.keys(read.properties).sort().join();
        expectThat(received === keys.sort().join(), `properties ${keys}`, received);
      },
    },
  }),
  ...checksOf(46, 'wire-format.md, "Properties extension"', {
    "unknown-key": {
      title: "An unknown key is NOT_FOUND.",
      notFor: needs("extension"),
      async run(stage) {
        const player = await stage.connect();
        const read = await codeOf(player, { case: "readProperty", value: { key: unknown } });
        expectThat(read === "error 5", "error 5 (NOT_FOUND) for a read", read);
        const listed = await codeOf(player, { case: "listProperty", value: { key: unknown } });
        expectThat(listed === "error 5", "error 5 (NOT_FOUND) for a list", listed);
      },
    },
    "not-permitted": {
      title: "What a property does not allow is PERMISSION_DENIED.",
      notFor: needs("extension"),
      async run(stage) {
        const player = await stage.agent();
        for (const [key, { isReadable, isListable }] of await tree(player)) {
          if (!isReadable) {
            const code = await codeOf(player, { case: "readProperty", value: { key } });
            expectThat(
              code === "error 7",
              `error 7 (PERMISSION_DENIED) for a read of "${key}"`,
              code,
            );
          }
          if (!isListable) {
            const code = await codeOf(player, { case: "listProperty", value: { key } });
            expectThat(
              code === "error 7",
              `error 7 (PERMISSION_DENIED) for a list of "${key}"`,
              code,
            );
          }
        }
      },
    },
    "no-world-before-a-join": {
      title: "A connection that has joined sees all that one sees that has not.",
      notFor: needs("extension"),
      async run(stage) {
        const outside = await tree(await stage.connect());
        const inside = await tree(await stage.agent());
        for (const key of outside.keys()) {
          if (/\d/.test(key)) continue;
          expectThat(inside.has(key), `"${key}" after a join too`, "none");
        }
      },
    },
  }),
];
