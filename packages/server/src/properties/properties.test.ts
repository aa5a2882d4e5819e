// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  type Any,
  anyPack,
  anyUnpack,
  DurationSchema,
  StringValueSchema,
} from "@bufbuild/protobuf/wkt";
import {
  ListPropertyRequestSchema,
  ReadPropertyRequestSchema,
  WritePropertyRequestSchema,
} from "@dm-env-rpc/protocol";
import {
  type PropertyRequest,
  PropertyRequestSchema,
  type PropertyResponse,
  PropertyResponseSchema,
  type PropertySpec,
} from "@dm-env-rpc/protocol/properties";
import { DmEnvRpcError, type PackValue, pack, t, toNested, unpack } from "@dm-env-rpc/tensor-codec";
import { packTensor, unpackTensor } from "@dm-env-rpc/tensor-codec/proto";
import { describe, expect, it } from "vitest";
import { connectPeer, type Peer } from "../../testing/peer.ts";
import { extension } from "../definition/extension.ts";
import { property } from "../definition/property.ts";
import { withDefault } from "../definition/settings.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";

function setUp() {
  let speed = 3;
  let title = "untitled";
  const world = defineWorld({
    name: "props",
    version: "2.1.0",
    settings: { size: withDefault(t.int32({ min: 1, max: 9 }), 4) },
    resetSettings: { hat: t.string() },
    resetWorldSettings: { size: withDefault(t.int32(), 4) },
    actions: {},
    observations: {},
    create: ({ settings }) => ({
      step() {},
      observe: {},
      properties: {
        size: property(t.int32(), { description: "Cells", read: () => settings.size }),
        who: property(t.int64(), { read: (agent) => BigInt(agent ?? 0) }),
        tuning: {
          speed: property(t.int32({ min: 0, max: 10 }), {
            read: () => speed,
            write: (value) => {
              speed = value;
            },
          }),
          secret: property(t.string(), { write: () => {} }),
          broken: property(t.int32(), {
            read: () => {
              throw new Error("no value today");
            },
          }),
          wrong: property(t.int32(), { read: () => 1.5 }),
          refused: property(t.int32(), {
            write: () => {
              throw new DmEnvRpcError("FAILED_PRECONDITION", "not now");
            },
          }),
        },
      },
      extensions: [
        extension(DurationSchema, StringValueSchema, ({ seconds }, { agent }) => ({
          value: `agent ${agent} waits ${seconds} s`,
        })),
      ],
    }),
  });
  const server = createEnvironmentServer({
    worlds: [world],
    properties: {
      title: property(t.string(), {
        read: async () => title,
        write: async (value) => {
          title = value;
        },
      }),
    },
    extensions: [
      extension(StringValueSchema, StringValueSchema, ({ value }, { worldName = "nowhere" }) => ({
        value: `${value} in ${worldName}`,
      })),
    ],
  });
  return { server, peer: connectPeer(server) };
}

async function ask(peer: Peer, value: Any): Promise<Any> {
  const response = await peer.send({ case: "extension", value });
  if (response.case === "error") {
    throw new Error(`${response.value.code}: ${response.value.message}`);
  }
  if (response.case !== "extension") {
    throw new Error(`received ${response.case}`);
  }
  return response.value;
}

async function request(peer: Peer, payload: PropertyRequest["payload"]): Promise<PropertyResponse> {
  const message = create(PropertyRequestSchema, { payload });
  const answer = await ask(peer, anyPack(PropertyRequestSchema, message));
  const response = anyUnpack(answer, PropertyResponseSchema);
  if (response === undefined) {
    throw new Error(`received ${answer.typeUrl}`);
  }
  return response;
}

type Requests = {
  [K in NonNullable<PropertyRequest["payload"]["case"]>]: Extract<
    PropertyRequest["payload"],
    { case: K }
  >["value"];
};

const payload = <K extends keyof Requests>(kind: K, value: Omit<Requests[K], "$typeName">) =>
  create(PropertyRequestSchema, { payload: { case: kind, value } as never }).payload;

async function read(peer: Peer, key: string): Promise<unknown> {
  const { payload: answer } = await request(peer, payload("readProperty", { key }));
  if (answer.case !== "readProperty" || answer.value.value === undefined) {
    throw new Error("no value");
  }
  return toNested(unpack(unpackTensor(answer.value.value)));
}

async function write(peer: Peer, key: string, value: PackValue): Promise<void> {
  const message = packTensor(pack(value));
  const { payload: answer } = await request(
    peer,
    payload("writeProperty", { key, value: message }),
  );
  expect(answer.case).toBe("writeProperty");
}

async function list(peer: Peer, key = ""): Promise<PropertySpec[]> {
  const { payload: answer } = await request(peer, payload("listProperty", { key }));
  if (answer.case !== "listProperty") {
    throw new Error("no list");
  }
  return answer.value.values;
}

const keys = (specs: readonly PropertySpec[]) => specs.map(({ spec }) => spec?.name);

describe("properties", () => {
  it("behaviour 45: are read, written and listed, as a tree", async () => {
    const { peer } = setUp();
    await peer.join(await peer.createWorld());
    expect(await read(peer, "tuning.speed")).toBe(3);
    await write(peer, "tuning.speed", 7);
    expect(await read(peer, "tuning.speed")).toBe(7);
    const [tuning] = (await list(peer)).filter(({ spec }) => spec?.name === "tuning");
    expect(tuning).toMatchObject({
      isListable: true,
      isReadable: false,
      isWritable: false,
      spec: { dtype: 0, shape: [] },
    });
    const [speed, secret] = await list(peer, "tuning");
    expect(speed).toMatchObject({
      spec: { name: "tuning.speed", dtype: 4 },
      isReadable: true,
      isWritable: true,
      isListable: false,
    });
    expect(secret).toMatchObject({ isReadable: false, isWritable: true });
  });

  it("behaviour 45: are read, written and listed by peers of 1.0.x, several keys at once", async () => {
    const { peer } = setUp();
    await peer.join(await peer.createWorld());
    const written = await peer.send({
      case: "writeProperty",
      value: create(WritePropertyRequestSchema, {
        properties: { "tuning.speed": packTensor(pack(5n)), title: packTensor(pack("new")) },
      }),
    });
    expect(written.case).toBe("writeProperty");
    const response = await peer.send({
      case: "readProperty",
      value: create(ReadPropertyRequestSchema, { keys: ["tuning.speed", "title"] }),
    });
    if (response.case !== "readProperty") {
      throw new Error(`received ${response.case}`);
    }
    expect(response.value.properties["tuning.speed"]?.payload.value?.array).toEqual([5]);
    expect(response.value.properties["title"]?.payload.value?.array).toEqual(["new"]);
    const listed = await peer.send({
      case: "listProperty",
      value: create(ListPropertyRequestSchema, { keys: ["", "tuning"] }),
    });
    if (listed.case !== "listProperty") {
      throw new Error(`received ${listed.case}`);
    }
    expect(listed.value.properties).toMatchObject({
      tuning: { isListable: true },
      "tuning.speed": { isWriteable: true },
    });
    const unknown = await peer.send({
      case: "readProperty",
      value: create(ReadPropertyRequestSchema, { keys: ["title", "nope"] }),
    });
    expect(unknown.case === "error" && unknown.value.code).toBe(5);
  });

  it("behaviour 46: are those of the server before a join, and also those of the world after it", async () => {
    const { peer } = setUp();
    expect(keys(await list(peer))).toEqual(["title", "server", "worlds", "types"]);
    await expect(read(peer, "size")).rejects.toThrow(/^5: .*"size".*title/);
    const world = await peer.createWorld();
    await peer.join(world);
    expect(keys(await list(peer))).toEqual([
      "size",
      "who",
      "tuning",
      "world",
      "title",
      "server",
      "worlds",
      "types",
    ]);
    expect(await read(peer, "size")).toBe(4);
    expect(await read(peer, "title")).toBe("untitled");
    expect(await read(peer, "who")).toBe(1n);
    await peer.leave();
    await expect(read(peer, "size")).rejects.toThrow(/^5: /);
  });

  it("behaviour 46: are refused by name if unknown, not permitted or invalid", async () => {
    const { peer } = setUp();
    await peer.join(await peer.createWorld());
    await expect(read(peer, "tuning.sped")).rejects.toThrow(/^5: .*tuning\.speed/);
    await expect(read(peer, "tuning")).rejects.toThrow(/^7: .*cannot be read/);
    await expect(read(peer, "tuning.secret")).rejects.toThrow(/^7: /);
    await expect(write(peer, "size", 3)).rejects.toThrow(/^7: .*cannot be written/);
    await expect(list(peer, "size")).rejects.toThrow(/^7: .*nothing under it/);
    await expect(list(peer, "nope")).rejects.toThrow(/^5: /);
    await expect(write(peer, "tuning.speed", 11)).rejects.toThrow(/^3: .*tuning\.speed/);
    await expect(write(peer, "tuning.speed", "fast")).rejects.toThrow(/^3: /);
    await expect(write(peer, "tuning.speed", 1.5)).rejects.toThrow(/^3: /);
    await expect(write(peer, "tuning.speed", [1.5, 1.5])).rejects.toThrow(/^3: .*shape \[2\]/);
    await expect(write(peer, "tuning.refused", 1)).rejects.toThrow(/^9: not now/);
  });

  it("behaviour 24: affect only the client that requests them if they fail", async () => {
    const { peer } = setUp();
    await peer.join(await peer.createWorld());
    await expect(read(peer, "tuning.broken")).rejects.toThrow(
      /^13: the property "tuning.broken" failed: no value today/,
    );
    await expect(read(peer, "tuning.wrong")).rejects.toThrow(/^13: .*tuning\.wrong/);
    expect((await peer.step()).state).toBe("RUNNING");
  });

  it("behaviour 21 and 59: list the settings of each kind of world, and its version", async () => {
    const { peer } = setUp();
    expect(await read(peer, "types.props.version")).toBe("2.1.0");
    expect(await read(peer, "server.name")).toBe("@dm-env-rpc/server");
    const [size] = await list(peer, "types.props.settings.create");
    expect(size).toMatchObject({ spec: { name: "types.props.settings.create.size", dtype: 4 } });
    expect(await read(peer, "types.props.settings.create.size")).toBe(4);
  });

  it("behaviour 21: say that every setting of a reset may be omitted, and has no default", async () => {
    const { peer } = setUp();
    for (const [request, names] of [
      ["reset", ["hat"]],
      ["reset_world", ["size", "seed"]],
    ] as const) {
      const settings = await list(peer, `types.props.settings.${request}`);
      expect(settings).toMatchObject(
        names.map((name) => ({
          spec: { name: `types.props.settings.${request}.${name}` },
          isReadable: false,
          description: "optional; if omitted, it keeps its value",
        })),
      );
    }
  });

  it("list the current worlds, and count the ticks and agents of the joined one", async () => {
    const { peer } = setUp();
    expect(await read(peer, "worlds.names")).toEqual([]);
    const world = await peer.createWorld();
    expect(await read(peer, "worlds.names")).toEqual([world]);
    await peer.join(world);
    await peer.step();
    await peer.step();
    expect(await read(peer, "world.ticks")).toBe(1);
    expect(await read(peer, "world.agents")).toBe(1);
  });
});

describe("extensions", () => {
  it("behaviour 9: are answered by the extension of their type, or refused", async () => {
    const { peer } = setUp();
    const greeting = anyPack(StringValueSchema, create(StringValueSchema, { value: "hello" }));
    const duration = anyPack(DurationSchema, create(DurationSchema, { seconds: 4n }));
    const text = async (value: Any) => anyUnpack(await ask(peer, value), StringValueSchema)?.value;
    expect(await text(greeting)).toBe("hello in nowhere");
    await expect(ask(peer, duration)).rejects.toThrow(/^12: .*google\.protobuf\.Duration/);
    const world = await peer.createWorld();
    await peer.join(world);
    expect(await text(greeting)).toBe(`hello in ${world}`);
    expect(await text(duration)).toBe("agent 1 waits 4 s");
    const junk = { ...greeting, value: Uint8Array.of(0xff, 0xff) };
    await expect(ask(peer, junk)).rejects.toThrow(/^3: .*StringValue/);
  });
});
