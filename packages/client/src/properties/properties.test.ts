// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { anyPack, anyUnpack, Int32ValueSchema, StringValueSchema } from "@bufbuild/protobuf/wkt";
import {
  ListPropertyResponseSchema as LegacyListSchema,
  ReadPropertyResponseSchema as LegacyReadSchema,
  WritePropertyResponseSchema as LegacyWriteSchema,
  ListPropertyResponse_PropertySchema,
} from "@dm-env-rpc/protocol";
import { PropertyRequestSchema, PropertyResponseSchema } from "@dm-env-rpc/protocol/properties";
import { type PackedTensor, pack, type TensorSpec, t, tensor } from "@dm-env-rpc/tensor-codec";
import { packSpec, packTensor, unpackTensor } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { describe, expect, test } from "vitest";
import { properties, sendExtension } from "../index.ts";
import { connected, type Script, status } from "../testing/scripted-server.ts";

interface Property {
  readonly spec?: TensorSpec;
  readonly children?: readonly string[];
  readonly readOnly?: boolean;
  value?: PackedTensor;
}

/** A tree of properties; `loop` lists itself. */
function tree(): Record<string, Property> {
  return {
    "": { children: ["seed", "board", "loop"] },
    seed: { spec: t.uint64(), value: pack(7n, { dtype: "uint64" }) },
    board: { children: ["board.size"] },
    "board.size": { spec: t.int32([2]), value: pack([3, 4], { dtype: "int32" }), readOnly: true },
    loop: { children: ["loop"] },
  };
}

const wrong = {
  unknown: (key: string) => status("NOT_FOUND", `no property "${key}"`),
  forbidden: (key: string) => status("PERMISSION_DENIED", `not allowed on "${key}"`),
};

function extensionScript(all = tree()): Script {
  const answer = (request: ProcessRequest): ProcessResponse | undefined => {
    if (request.case !== "extension") {
      return undefined;
    }
    const { payload } = anyUnpack(request.value, PropertyRequestSchema) ?? {};
    if (payload?.value === undefined) {
      return status("INVALID_ARGUMENT", "no property request");
    }
    const { key } = payload.value;
    const property = all[key];
    if (property === undefined) {
      return wrong.unknown(key);
    }
    const respond = (response: Parameters<typeof create<typeof PropertyResponseSchema>>[1]) => ({
      case: "extension" as const,
      value: anyPack(PropertyResponseSchema, create(PropertyResponseSchema, response)),
    });
    switch (payload.case) {
      case "readProperty":
        if (property.value === undefined) {
          return wrong.forbidden(key);
        }
        return respond({
          payload: { case: "readProperty", value: { value: packTensor(property.value) } },
        });
      case "writeProperty":
        if (property.readOnly || payload.value.value === undefined) {
          return wrong.forbidden(key);
        }
        property.value = unpackTensor(payload.value.value);
        return respond({ payload: { case: "writeProperty", value: {} } });
      case "listProperty": {
        if (property.children === undefined) {
          return wrong.forbidden(key);
        }
        const values = property.children.map((name) => ({
          spec: all[name]?.spec ? packSpec(name, all[name].spec) : { name },
          isReadable: all[name]?.value !== undefined,
          isWritable: all[name]?.value !== undefined && !all[name].readOnly,
          isListable: all[name]?.children !== undefined,
          description: `about ${name}`,
        }));
        return respond({ payload: { case: "listProperty", value: { values } } });
      }
    }
  };
  return { answer };
}

function legacyScript(all = tree()): Script {
  const answer = (request: ProcessRequest): ProcessResponse | undefined => {
    if (request.case === "readProperty") {
      const key = request.value.keys[0] ?? "";
      const value = all[key]?.value;
      if (value === undefined) {
        return wrong.unknown(key);
      }
      return {
        case: "readProperty",
        value: create(LegacyReadSchema, { properties: { [key]: packTensor(value) } }),
      };
    }
    if (request.case === "writeProperty") {
      for (const [key, value] of Object.entries(request.value.properties)) {
        const property = all[key];
        if (property === undefined) {
          return wrong.unknown(key);
        }
        property.value = unpackTensor(value);
      }
      return { case: "writeProperty", value: create(LegacyWriteSchema) };
    }
    if (request.case === "listProperty") {
      const listed = all[request.value.keys[0] ?? ""]?.children ?? [];
      const entries = listed.map((name) => [
        name,
        create(ListPropertyResponse_PropertySchema, {
          isReadable: all[name]?.value !== undefined,
          isListable: all[name]?.children !== undefined,
          ...(all[name]?.spec && { spec: packSpec(name, all[name].spec) }),
        }),
      ]);
      return {
        case: "listProperty",
        value: create(LegacyListSchema, { properties: Object.fromEntries(entries) }),
      };
    }
    return undefined;
  };
  return { answer };
}

describe.each([
  ["the extension", extensionScript],
  ["the requests of 1.0, detected automatically", legacyScript],
])("behaviour 45: properties through %s", (_name, script) => {
  test("are read, written and listed", async () => {
    await using connection = (await connected(script())).connection;
    const server = properties(connection);
    expect(await server.get("seed")).toBe(7n);
    expect(await server.get("board.size")).toEqual(tensor("int32", [2], new Int32Array([3, 4])));
    await server.set("seed", 9n, { dtype: "uint64" });
    expect(await server.get("seed")).toBe(9n);
    expect((await server.list()).map(({ key, listable }) => [key, listable])).toEqual([
      ["seed", false],
      ["board", true],
      ["loop", true],
    ]);
  });

  test("form a tree that is finite even if a property lists itself", async () => {
    await using connection = (await connected(script())).connection;
    const tree = await properties(connection).tree();
    expect(tree).toMatchObject([
      { key: "seed", spec: { dtype: "uint64" }, children: [] },
      { key: "board", spec: undefined, children: [{ key: "board.size", children: [] }] },
      { key: "loop", children: [{ key: "loop", children: [] }] },
    ]);
    expect(await properties(connection).tree("board")).toHaveLength(1);
  });

  test("are packed by their specs if they were listed before they are written", async () => {
    await using connection = (await connected(script())).connection;
    const server = properties(connection);
    await server.list();
    await server.set("seed", 11n);
    expect(await server.get("seed")).toBe(11n);
    await expect(server.set("seed", 1.5)).rejects.toMatchObject({ specName: "seed" });
  });

  test("with unknown keys are NOT_FOUND", async () => {
    await using connection = (await connected(script())).connection;
    await expect(properties(connection).get("nothing")).rejects.toMatchObject({
      code: "NOT_FOUND",
      message: 'no property "nothing"',
    });
  });
});

test("behaviour 46: a forbidden read, write or list is PERMISSION_DENIED", async () => {
  await using connection = (await connected(extensionScript())).connection;
  const server = properties(connection);
  const denied = { code: "PERMISSION_DENIED" };
  await expect(server.get("board")).rejects.toMatchObject(denied);
  await expect(server.set("board.size", [1, 2], { dtype: "int32" })).rejects.toMatchObject(denied);
  await expect(server.list("seed")).rejects.toMatchObject(denied);
});

test("a server without properties reports its error about the extension", async () => {
  const answer = (request: ProcessRequest) =>
    status("UNIMPLEMENTED", request.case === "extension" ? "no such extension" : "no such request");
  await using connection = (await connected({ answer })).connection;
  await expect(properties(connection).get("seed")).rejects.toThrow("no such extension");
});

test("properties are read through an environment's connection, in order with its steps", async () => {
  await using connection = (await connected(extensionScript())).connection;
  const environment = await connection.join("world");
  const order: string[] = [];
  await Promise.all([
    environment.step({}).then(() => order.push("step")),
    properties(environment.connection)
      .get("seed")
      .then(() => order.push("property")),
    environment.step({}).then(() => order.push("step")),
  ]);
  expect(order.filter((what) => what === "step")).toHaveLength(2);
  expect(order.indexOf("property")).toBeGreaterThan(0);
});

describe("an extension", () => {
  const extension = { request: StringValueSchema, response: Int32ValueSchema };

  test("answers a message with a message", async () => {
    const answer = (request: ProcessRequest): ProcessResponse | undefined => {
      if (request.case !== "extension") {
        return undefined;
      }
      const { value = "" } = anyUnpack(request.value, StringValueSchema) ?? {};
      return {
        case: "extension",
        value: anyPack(Int32ValueSchema, create(Int32ValueSchema, { value: value.length })),
      };
    };
    await using connection = (await connected({ answer })).connection;
    expect((await sendExtension(connection, extension, { value: "four" })).value).toBe(4);
  });

  test("rejects with both type names if the server answers with another message", async () => {
    const answer = (request: ProcessRequest): ProcessResponse | undefined =>
      request.case === "extension" ? { case: "extension", value: request.value } : undefined;
    await using connection = (await connected({ answer })).connection;
    const sent = sendExtension(connection, extension, { value: "four" });
    await expect(sent).rejects.toMatchObject({ code: "INTERNAL" });
    await expect(sent).rejects.toThrow(
      /expected google.protobuf.Int32Value.*received .*StringValue/,
    );
  });
});
