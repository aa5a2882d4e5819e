// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import {
  createFileRegistry,
  createRegistry,
  type DescEnum,
  type DescField,
  fromBinary,
  type Registry,
} from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { file_dm_env_rpc_v1_dm_env_rpc } from "./index.ts";
import { file_dm_env_rpc_v1_extensions_properties } from "./properties.ts";
import { file_google_rpc_status } from "./status.ts";

// The descriptors that the official Python package was built from (proto/upstream/make.py).
const image = new URL("../../../proto/upstream/dm_env_rpc-1.1.6.binpb", import.meta.url);
const upstream = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(image)));
const ours = createRegistry(
  file_dm_env_rpc_v1_dm_env_rpc,
  file_dm_env_rpc_v1_extensions_properties,
  file_google_rpc_status,
);

/** The properties of a field that its encoding depends on. */
function wire(field: DescField) {
  return {
    number: field.number,
    kind: field.fieldKind,
    type: field.proto.type,
    typeName: field.proto.typeName,
    packed: field.fieldKind === "list" && field.packed,
    oneof: field.oneof?.name,
  };
}

const values = (desc: DescEnum | undefined) =>
  desc?.values.map(({ name, number }) => `${name} = ${number}`);

describe("the released protocol", () => {
  const messages = [...upstream].filter((desc) => desc.kind === "message");
  it.each(
    messages
      .filter(({ file }) => !file.name.startsWith("google/protobuf"))
      .map((message) => [message.typeName, message] as const),
  )("has a %s with the same fields", (typeName, message) => {
    const own = ours.getMessage(typeName);
    for (const field of message.fields) {
      const same = own?.fields.find(({ name }) => name === field.name);
      expect(same && wire(same)).toEqual(wire(field));
    }
  });

  it("has enums with the same values", () => {
    for (const desc of upstream) {
      if (desc.kind === "enum") {
        expect(values(ours.getEnum(desc.typeName))).toEqual(values(desc));
      }
    }
  });

  it("has a service with the same method", () => {
    const method = (registry: Registry) => {
      const [process] = registry.getService("dm_env_rpc.v1.Environment")?.methods ?? [];
      return [
        process?.name,
        process?.methodKind,
        process?.input.typeName,
        process?.output.typeName,
      ];
    };
    expect(method(ours)).toEqual(method(upstream));
  });
});

describe("the requests of 1.0.x", () => {
  it("are part of EnvironmentRequest", () => {
    const numbers = ours
      .getMessage("dm_env_rpc.v1.EnvironmentRequest")
      ?.fields.map(({ name, number }) => `${number} ${name}`);
    expect(numbers).toEqual(
      expect.arrayContaining(["8 read_property", "9 write_property", "10 list_property"]),
    );
  });
});
