// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, TensorError } from "@dm-env-rpc/tensor-codec";
import { unpackStatus } from "@dm-env-rpc/tensor-codec/proto";
import { describe, expect, it } from "vitest";
import { refuse } from "../definition/refuse.ts";
import { clientError, errorResponse } from "./responses.ts";

describe("the error that a client receives", () => {
  const taken = new DmEnvRpcError("ALREADY_EXISTS", "the field is taken");

  it("is the author's own, also from a refusal", () => {
    expect(clientError(taken)).toBe(taken);
    expect(clientError(refuse(taken))).toBe(taken);
  });

  it.each([
    ["a bound", "value", "INVALID_ARGUMENT"],
    ["a limit of the server", "limit", "RESOURCE_EXHAUSTED"],
  ] as const)("has the code for %s that a tensor exceeds", (_what, reason, code) => {
    const cause = new TensorError({ reason, name: "move", expected: "1", received: "2" });
    const error = clientError(cause);
    expect([error.code, error.message, error.cause]).toEqual([code, cause.message, cause]);
  });

  it("is INTERNAL for a fault, with the fault's message", () => {
    const cause = new Error("no such file");
    const error = clientError(cause);
    expect([error.code, error.message, error.cause]).toEqual(["INTERNAL", "no such file", cause]);
    const response = errorResponse(cause);
    expect(response.case === "error" && unpackStatus(response.value)).toMatchObject({
      code: "INTERNAL",
      message: "no such file",
    });
  });
});
