// SPDX-License-Identifier: Apache-2.0
import { toBinary } from "@bufbuild/protobuf";
import { EnvironmentRequestSchema, EnvironmentResponseSchema } from "@dm-env-rpc/protocol";
import { frame } from "./framing.ts";
import { answerGenerated, generatedRequest } from "./generated.ts";
import type { Load } from "./load.ts";

/** The bytes of one step, each with gRPC's prefix of five bytes, for the floors to carry. */
export function framesOf(load: Load): { readonly request: Buffer; readonly response: Buffer } {
  const request = generatedRequest(1, load.observations);
  const response = answerGenerated(load.generatedGame(), request);
  return {
    request: frame(toBinary(EnvironmentRequestSchema, request)),
    response: frame(toBinary(EnvironmentResponseSchema, response)),
  };
}
