// SPDX-License-Identifier: Apache-2.0
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  EnvironmentRequestSchema,
  EnvironmentResponseSchema,
  JoinWorldRequestSchema,
} from "@dm-env-rpc/protocol";
import { expect, test } from "vitest";
import { createRequestCodec, createResponseCodec, pack, packTensor } from "../index.ts";
import type { MessageCodec } from "../messages.ts";

function encode<T>(codec: MessageCodec<T>, message: T): Uint8Array {
  const bytes = new Uint8Array(codec.size(message) + 3);
  expect(codec.write(message, bytes, 3)).toBe(bytes.length);
  return bytes.subarray(3);
}

test("a step request is the generated code's, both ways", () => {
  const codec = createRequestCodec();
  const move = pack(-3, { dtype: "int8" });
  const bytes = encode(codec, {
    case: "step",
    value: { actions: [{ uid: 300, tensor: move }], requestedObservations: [1, 1, 2n ** 63n] },
  });
  const generated = create(EnvironmentRequestSchema, {
    payload: {
      case: "step",
      value: {
        actions: { "300": packTensor(move) },
        requestedObservations: [1n, 1n, 2n ** 63n],
      },
    },
  });
  expect(fromBinary(EnvironmentRequestSchema, bytes)).toEqual(generated);
  expect(bytes).toEqual(toBinary(EnvironmentRequestSchema, generated));
  expect(codec.read(bytes, 0, bytes.length)).toEqual({
    case: "step",
    value: { actions: [{ uid: 300, tensor: move }], requestedObservations: [1, 1, 2n ** 63n] },
  });
});

test("a step response is the generated code's, both ways", () => {
  const codec = createResponseCodec();
  const tensors = [
    pack([1.5, -2], { dtype: "float32" }),
    pack([[true], [false]]),
    pack([1n, -1n]),
    pack([1, -1, 100000], { dtype: "int32" }),
    pack(["a", "ß€😀"]),
  ];
  const message = {
    case: "step" as const,
    value: { state: 2 as const, observations: tensors.map((tensor, uid) => ({ uid, tensor })) },
  };
  const bytes = encode(codec, message);
  const generated = create(EnvironmentResponseSchema, {
    payload: {
      case: "step",
      value: {
        state: 2,
        observations: Object.fromEntries(tensors.map((tensor, uid) => [uid, packTensor(tensor)])),
      },
    },
  });
  expect(bytes).toEqual(toBinary(EnvironmentResponseSchema, generated));
  expect(codec.read(bytes, 0, bytes.length)).toEqual(message);
});

test("other payloads are the generated messages", () => {
  const codec = createRequestCodec();
  const payload = {
    case: "joinWorld" as const,
    value: create(JoinWorldRequestSchema, { worldName: "maze" }),
  };
  const bytes = encode(codec, payload);
  expect(bytes).toEqual(
    toBinary(EnvironmentRequestSchema, create(EnvironmentRequestSchema, { payload })),
  );
  expect(codec.read(bytes, 0, bytes.length)).toEqual(payload);
});

test("behaviour 9: bytes that are no message are malformed, with the offset", () => {
  const read = createRequestCodec().read(new Uint8Array([0x1a, 0x05, 0x0a]), 0, 3);
  expect(read).toMatchObject({
    case: "malformed",
    value: { reason: "malformed", message: expect.stringContaining("at byte 1 of the message") },
  });
});
