// SPDX-License-Identifier: Apache-2.0
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { JoinWorldResponseSchema, StepResponseSchema } from "@dm-env-rpc/protocol";
import { PropertyResponseSchema } from "@dm-env-rpc/protocol/properties";
import { type Specs, t } from "@dm-env-rpc/tensor-codec";
import { packSpec, packSpecs, specTable, unpackSpecs } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { memoryStreamPair } from "@dm-env-rpc/transport";
import { describe, expect, it } from "vitest";
import { Peer } from "../../testing/peer.ts";
import { freeRunning } from "../clocks/free-running.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";
import { workaroundFor } from "./official-client.ts";

const peer = (userAgent?: string) => ({
  address: "127.0.0.1:1",
  metadata: new Map(userAgent === undefined ? [] : [["user-agent", userAgent]]),
  certificate: undefined,
});

const official = workaroundFor(peer("grpc-python/1.85.1 grpc-c/53.0.0 (linux; chttp2)"));

/** Returns the specs that a response to the official client has for `actions`. */
function usable(actions: Record<string, Specs[string]>) {
  const specs = packSpecs({ actions: specTable(actions as never), observations: specTable({}) });
  const value = create(JoinWorldResponseSchema, { specs });
  const before = toBinary(JoinWorldResponseSchema, value);
  const adapted = official?.({ case: "joinWorld", value });
  expect(toBinary(JoinWorldResponseSchema, value)).toEqual(before);
  if (adapted?.case !== "joinWorld") {
    throw new Error("expected the same kind of response");
  }
  const { byName } = unpackSpecs(adapted.value.specs).actions;
  return Object.fromEntries([...byName].map(([name, { spec }]) => [name, spec]));
}

describe("the workaround for the official Python client", () => {
  it("applies only to the official client", () => {
    expect(workaroundFor(peer())).toBeUndefined();
    expect(workaroundFor(peer("dm-env-rpc-typescript"))).toBeUndefined();
    expect(workaroundFor(peer("grpc-c++/1.62.0"))).toBeUndefined();
    expect(workaroundFor(peer("not-grpc-python/1"))).toBeUndefined();
    expect(workaroundFor(peer("grpc-python-asyncio/1.85.1 grpc-c/53.0.0"))).toBeDefined();
    expect(workaroundFor(peer("mine/1 grpc-python/1.85.1"))).toBeDefined();
  });

  it("behaviour 16: omits bounds of variable-length specs, and of scalars from 0 to the maximum of the dtype", () => {
    const plain = (dtype: string, shape: number[] = []) => ({ dtype, shape });
    expect(
      usable({
        byte: t.uint8({ min: 0, max: 255 }),
        some: t.uint64({ max: 2n ** 64n - 1n }),
        natural: t.int32({ min: 0 }),
        wide: t.discrete(2 ** 31, "int64"),
        list: t.float32([-1], { min: 0, max: 1 }),
        rows: t.int8([2, -1], { max: 3 }),
      }),
    ).toEqual({
      byte: plain("uint8"),
      some: plain("uint64"),
      natural: plain("int32"),
      wide: t.discrete(2 ** 31, "int64"),
      list: plain("float32", [-1]),
      rows: plain("int8", [2, -1]),
    });
  });

  it("behaviour 16: keeps every other bound", () => {
    const kept = {
      almost: t.uint8({ min: 0, max: 254 }),
      one: t.uint8({ min: 1, max: 255 }),
      all: t.int8({ min: -128, max: 127 }),
      row: t.uint8([2], { min: 0, max: 255 }),
      float: t.float32({ min: 0 }),
      each: t.int64([2], { min: [0n, 1n], max: 2n ** 63n - 1n }),
      none: t.string([-1]),
    };
    expect(usable(kept)).toEqual(kept);
  });

  it("behaviour 16: also applies to the specs of properties", () => {
    const message = create(PropertyResponseSchema, {
      payload: {
        case: "listProperty",
        value: { values: [{ spec: packSpec("byte", t.uint8({ min: 0, max: 255 })) }, {}] },
      },
    });
    const typeUrl = `type.googleapis.com/${PropertyResponseSchema.typeName}`;
    const value = toBinary(PropertyResponseSchema, message);
    const response = official?.({
      case: "extension",
      value: { $typeName: "google.protobuf.Any", typeUrl, value },
    });
    if (response?.case !== "extension") {
      throw new Error("expected the same kind of response");
    }
    const { payload } = fromBinary(PropertyResponseSchema, response.value.value);
    if (payload.case !== "listProperty") {
      throw new Error("expected the same kind of property");
    }
    expect(payload.value.values).toHaveLength(2);
    expect(payload.value.values[0]?.spec).toMatchObject({ name: "byte" });
    expect(payload.value.values[0]?.spec?.max).toBeUndefined();
  });

  it("does not change other responses", () => {
    const step: ProcessResponse = { case: "step", value: { state: 1, observations: [] } };
    const other: ProcessResponse = {
      case: "extension",
      value: {
        $typeName: "google.protobuf.Any",
        typeUrl: `type.googleapis.com/${StepResponseSchema.typeName}`,
        value: new Uint8Array(1),
      },
    };
    const noSpecs: ProcessResponse = { case: "joinWorld", value: create(JoinWorldResponseSchema) };
    for (const response of [step, other, noSpecs]) {
      expect(official?.(response)).toBe(response);
    }
  });

  it("behaviour 17: omits bounds that the server still checks", async () => {
    const world = defineWorld({
      name: "bounded",
      actions: { list: t.int32([-1], { min: 0, max: 5 }) },
      observations: {},
      clock: freeRunning(),
      create: () => ({ step() {}, observe: {} }),
    });
    await using server = createEnvironmentServer({ worlds: [world] });
    const connect = async (userAgent: string) => {
      const [client, stream] = memoryStreamPair({ metadata: peer(userAgent).metadata });
      server.accept(stream);
      const connected = new Peer(client);
      await connected.join(await connected.createWorld());
      return connected;
    };
    const python = await connect("grpc-python/1.85.1 grpc-c/53.0.0 (linux; chttp2)");
    const other = await connect("dm-env-rpc-typescript");
    const specOf = ({ actions }: Peer) => actions?.byName.get("list")?.spec;
    expect(specOf(python)).toEqual({ dtype: "int32", shape: [-1] });
    await python.step();
    await expect(python.step({ list: Int32Array.of(0, 6) })).rejects.toThrow("from 0 to 5");
    await python.reset();
    expect(specOf(python)).toEqual({ dtype: "int32", shape: [-1] });
    expect(specOf(other)).toEqual(t.int32([-1], { min: 0, max: 5 }));
  });
});
