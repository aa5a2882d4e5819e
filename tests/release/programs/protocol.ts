// SPDX-License-Identifier: Apache-2.0
import { deepEqual } from "node:assert/strict";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Environment, EnvironmentRequestSchema } from "@dm-env-rpc/protocol";

const request = create(EnvironmentRequestSchema, {
  payload: { case: "joinWorld", value: { worldName: "meadow" } },
});
const bytes = toBinary(EnvironmentRequestSchema, request);
deepEqual([...bytes], [0x12, 8, 0x0a, 6, ...Buffer.from("meadow")]);
deepEqual(fromBinary(EnvironmentRequestSchema, bytes), request);
deepEqual(Environment.typeName, "dm_env_rpc.v1.Environment");
