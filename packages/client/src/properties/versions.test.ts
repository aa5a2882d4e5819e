// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { create } from "@bufbuild/protobuf";
import { anyPack, anyUnpack } from "@bufbuild/protobuf/wkt";
import { PropertyRequestSchema, PropertyResponseSchema } from "@dm-env-rpc/protocol/properties";
import { pack } from "@dm-env-rpc/tensor-codec";
import { packTensor } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { expect, test } from "vitest";
import { readRecording, record } from "../recording/index.ts";
import { connected, type Script, status } from "../testing/scripted-server.ts";
import { software } from "./software.ts";
import { versions } from "./versions.ts";

/** Returns the script of a server whose properties are strings. */
function texts(values: Readonly<Record<string, string>>): Script {
  return {
    answer: (request: ProcessRequest): ProcessResponse | undefined => {
      if (request.case !== "extension") {
        return undefined;
      }
      const { payload } = anyUnpack(request.value, PropertyRequestSchema) ?? {};
      const value = values[payload?.value?.key ?? ""];
      if (value === undefined) {
        return status("NOT_FOUND", "no such property");
      }
      const read = { value: packTensor(pack(value)) };
      const response = create(PropertyResponseSchema, {
        payload: { case: "readProperty", value: read },
      });
      return { case: "extension", value: anyPack(PropertyResponseSchema, response) };
    },
  };
}

test("the name and version of the client are those in package.json", () => {
  const manifest: unknown = JSON.parse(
    readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
  );
  expect(manifest).toMatchObject(software);
});

test("behaviour 59: versions() reads the versions of server and world, and adds the client's", async () => {
  const all = {
    "server.name": "s",
    "server.version": "1",
    "world.type": "w",
    "world.version": "2",
  };
  await using connection = (await connected(texts(all))).connection;
  expect(await versions(connection)).toEqual({
    client: software,
    server: { name: "s", version: "1" },
    world: { name: "w", version: "2" },
  });
});

test("behaviour 59: a server without version properties is not an error", async () => {
  for (const script of [texts({}), {}]) {
    await using connection = (await connected(script)).connection;
    expect(await versions(connection)).toEqual({
      client: software,
      server: undefined,
      world: undefined,
    });
  }
});

test("behaviour 59: a recording has the client's version and the given versions", async () => {
  const chunks: Uint8Array[] = [];
  await using connection = (await connected()).connection;
  record(connection, { write: (bytes) => chunks.push(bytes) }, { versions: { world: "2" } });
  const { value } = await readRecording(Buffer.concat(chunks)).next();
  expect(value).toMatchObject({
    value: { versions: { [software.name]: software.version, world: "2" } },
  });
});
