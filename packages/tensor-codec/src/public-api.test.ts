// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as api from "./index.ts";
import * as proto from "./proto/index.ts";
import * as wire from "./wire/index.ts";

test("the package exports what authors and agents use", () => {
  expect(Object.keys(api).sort()).toEqual([
    "DmEnvRpcError",
    "TensorError",
    "checkNames",
    "clamp",
    "dtypes",
    "elementCount",
    "equalSpecs",
    "equals",
    "flattenSpecs",
    "flattenValues",
    "fromDmEnvSpec",
    "isDiscrete",
    "isDmEnvRpcError",
    "isTensorError",
    "isVariable",
    "legalActions",
    "legalActionsName",
    "nestValues",
    "pack",
    "packFor",
    "sample",
    "t",
    "tensor",
    "toDmEnvSpec",
    "toDmEnvSpecs",
    "toMessages",
    "toNested",
    "toScalar",
    "toValue",
    "unpack",
    "unpackFor",
    "validate",
    "zeros",
  ]);
});

test("./proto exports the bridges to generated messages", () => {
  expect(Object.keys(proto).sort()).toEqual([
    "dtypeOf",
    "packSettings",
    "packSpec",
    "packSpecs",
    "packStatus",
    "packTensor",
    "specTable",
    "statusCodeOf",
    "statusCodes",
    "tableOf",
    "unpackSpec",
    "unpackSpecs",
    "unpackStatus",
    "unpackTensor",
  ]);
});

test("./wire exports the codecs and their limits", () => {
  expect(Object.keys(wire).sort()).toEqual([
    "createArrivingRequestCodec",
    "createRequestCodec",
    "createResponseCodec",
    "decodeMessage",
    "decodeTensor",
    "defaultMaxDimensions",
    "defaultMaxElements",
    "defaultMaxEntries",
    "defaultMaxMessageWork",
    "defaultMaxStringBytes",
    "encodeTensor",
    "keepBytes",
    "ownScalars",
  ]);
});

test("each name, types included, is exported at one path", () => {
  const paths = ["index.ts", "proto/index.ts", "wire/index.ts"];
  const names = paths.flatMap((path) => {
    const source = readFileSync(new URL(path, import.meta.url), "utf8");
    const lists = [...source.matchAll(/export (?:type )?\{([^}]*)\}/g)].map(([, list]) => list);
    return lists.flatMap((list) => (list ?? "").match(/\w+(?=\s*(?:,|$))/g) ?? []);
  });
  expect(names).toContain("TensorSpec");
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
});
