// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import * as api from "./index.ts";
import * as wire from "./wire/index.ts";

test("the package exports these names, and no others", () => {
  expect(Object.keys(api).sort()).toEqual([
    "DEFAULT_MAX_ELEMENTS",
    "DEFAULT_MAX_ENTRIES",
    "DEFAULT_MAX_STRING_BYTES",
    "DmEnvRpcError",
    "TensorError",
    "checkNames",
    "clamp",
    "createRequestCodec",
    "createResponseCodec",
    "decodeMessage",
    "decodeTensor",
    "dtypeOf",
    "dtypes",
    "elementCount",
    "encodeTensor",
    "equalSpecs",
    "equals",
    "flattenSpecs",
    "flattenValues",
    "fromDmEnvSpec",
    "isDmEnvRpcError",
    "isTensorError",
    "isVariable",
    "nestValues",
    "pack",
    "packFor",
    "packSettings",
    "packSpec",
    "packSpecs",
    "packStatus",
    "packTensor",
    "sample",
    "specTable",
    "statusCodes",
    "t",
    "tableOf",
    "tensor",
    "toDmEnvSpec",
    "toDmEnvSpecs",
    "toMessages",
    "toNested",
    "toScalar",
    "toValue",
    "unpack",
    "unpackFor",
    "unpackSpec",
    "unpackSpecs",
    "unpackStatus",
    "unpackTensor",
    "validate",
    "zeros",
  ]);
});

test("the wire's own door leads to the codecs alone", () => {
  expect(Object.keys(wire).sort()).toEqual([
    "createRequestCodec",
    "createResponseCodec",
    "decodeMessage",
    "decodeTensor",
    "encodeTensor",
    "ownScalars",
  ]);
});
