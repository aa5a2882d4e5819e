// SPDX-License-Identifier: Apache-2.0
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { anyPack, StructSchema } from "@bufbuild/protobuf/wkt";
import {
  CreateWorldRequestSchema,
  EnvironmentRequestSchema,
  EnvironmentResponseSchema,
  JoinWorldRequestSchema,
  LeaveWorldRequestSchema,
} from "@dm-env-rpc/protocol";
import { StatusSchema } from "@dm-env-rpc/protocol/status";
import fc from "fast-check";
import { expect, test } from "vitest";
import { tensors, uids } from "../../testing/arbitraries.ts";
import { choices } from "../../testing/layouts.ts";
import { delimited, tag, varintField } from "../../testing/protobuf.ts";
import { layEnvelope, layStepRequest, layStepResponse, steps } from "../../testing/step-layouts.ts";
import { comparableOf, comparableOfGenerated, encode } from "../../testing/steps.ts";
import { pack } from "../packing/pack.ts";
import { packTensor } from "../proto/tensors.ts";
import { createRequestCodec, createResponseCodec, keepBytes } from "./index.ts";
import type { ProcessRequest, ProcessResponse } from "./messages.ts";

const requests = createRequestCodec();
const responses = createResponseCodec();
const ignoreUnknown = { readUnknownFields: false };

const entries = fc.uniqueArray(fc.record({ uid: uids, tensor: tensors }), {
  maxLength: 20,
  size: "max",
  selector: ({ uid }) => uid,
});

test("a step request reads back unchanged, and the generated code reads the same", () => {
  fc.assert(
    fc.property(entries, fc.array(uids), (actions, requestedObservations) => {
      const message: ProcessRequest = {
        case: "step",
        value: { actions, requestedObservations },
      };
      const bytes = encode(requests, message);
      const read = requests.read(bytes, 0, bytes.length);
      expect(read).toEqual(message);
      expect(comparableOfGenerated(fromBinary(EnvironmentRequestSchema, bytes).payload)).toEqual(
        comparableOf(message),
      );
    }),
  );
});

test("a step response reads back unchanged, and the generated code reads the same", () => {
  fc.assert(
    fc.property(entries, fc.integer({ min: -1, max: 300 }), (observations, state) => {
      const message = { case: "step", value: { state, observations } } as ProcessResponse;
      const bytes = encode(responses, message);
      expect(responses.read(bytes, 0, bytes.length)).toEqual(message);
      expect(comparableOfGenerated(fromBinary(EnvironmentResponseSchema, bytes).payload)).toEqual(
        comparableOf(message),
      );
    }),
  );
});

test("a step of one entry has the same bytes as the generated code's", () => {
  const move = pack(-3, { dtype: "int8" });
  const bytes = encode(requests, {
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
  expect(bytes).toEqual(toBinary(EnvironmentRequestSchema, generated));
});

test("every layout of a request reads as the generated code reads it", () => {
  const others = [
    delimited(1, []),
    delimited(2, delimited(1, [65, 66])),
    delimited(2, delimited(2, [...delimited(1, [67]), ...delimited(2, [])])),
    delimited(6, varintField(40, 1)),
    delimited(15, delimited(1, [68])),
  ];
  fc.assert(
    fc.property(steps, choices, (step, choose) => {
      const bytes = layEnvelope(layStepRequest(step, choose), others, choose);
      const read = requests.read(bytes, 0, bytes.length);
      const { payload } = fromBinary(EnvironmentRequestSchema, bytes, ignoreUnknown);
      expect(comparableOf(withoutUnknown(read as ProcessRequest))).toEqual(
        comparableOfGenerated(payload),
      );
    }),
    { numRuns: 1500 },
  );
});

test("every layout of a response reads as the generated code reads it", () => {
  const others = [
    delimited(1, delimited(1, [65])),
    delimited(2, delimited(1, delimited(1, delimited(2, delimited(1, [66]))))),
    delimited(6, []),
    delimited(16, [...varintField(1, 5), ...delimited(2, [67])]),
    delimited(16, delimited(3, delimited(1, [68]))),
  ];
  fc.assert(
    fc.property(steps, choices, (step, choose) => {
      const bytes = layEnvelope(layStepResponse(step, choose), others, choose);
      const read = responses.read(bytes, 0, bytes.length);
      const { payload } = fromBinary(EnvironmentResponseSchema, bytes, ignoreUnknown);
      expect(comparableOf(withoutUnknown(read as ProcessResponse))).toEqual(
        comparableOfGenerated(payload),
      );
    }),
    { numRuns: 1500 },
  );
});

test("other payloads are the generated messages", () => {
  const payloads = [
    {
      case: "joinWorld" as const,
      value: create(JoinWorldRequestSchema, {
        worldName: "maze",
        settings: { seed: packTensor(pack(1n)) },
      }),
    },
    { case: "leaveWorld" as const, value: create(LeaveWorldRequestSchema) },
    { case: "extension" as const, value: anyPack(StructSchema, create(StructSchema)) },
  ];
  for (const payload of payloads) {
    const bytes = encode<ProcessRequest>(requests, payload);
    const generated = create(EnvironmentRequestSchema, { payload });
    expect(bytes).toEqual(toBinary(EnvironmentRequestSchema, generated));
    expect(requests.read(bytes, 0, bytes.length)).toEqual(payload);
  }
  const error = {
    case: "error" as const,
    value: create(StatusSchema, { code: 3, message: "no such setting" }),
  };
  const bytes = encode<ProcessResponse>(responses, error);
  expect(bytes).toEqual(
    toBinary(EnvironmentResponseSchema, create(EnvironmentResponseSchema, { payload: error })),
  );
  expect(responses.read(bytes, 0, bytes.length)).toEqual(error);
});

test("behaviour 9: a request without a payload decodes to a request without a payload", () => {
  expect(requests.size({ case: undefined })).toBe(0);
  expect(requests.write({ case: undefined }, new Uint8Array(0), 0)).toBe(0);
  expect(requests.read(new Uint8Array(0), 0, 0)).toEqual({ case: undefined });
  const unknown = Uint8Array.from(delimited(99, [1, 2]));
  expect(requests.read(unknown, 0, unknown.length)).toEqual({ case: undefined });
});

test("a message is read from the middle of a buffer without the bytes around it", () => {
  const message: ProcessRequest = {
    case: "step",
    value: { actions: [{ uid: 1, tensor: pack(new Float32Array(9)) }], requestedObservations: [2] },
  };
  const bytes = encode(requests, message);
  const buffer = new Uint8Array(bytes.length + 20).fill(0xff);
  buffer.set(bytes, 7);
  expect(requests.read(buffer, 7, 7 + bytes.length)).toEqual(message);
  expect(requests.read(buffer, 7, 6 + bytes.length)).toMatchObject({ case: "malformed" });
});

test("an entry without payload reads as unset, and is written unchanged", () => {
  const bytes = Uint8Array.from(
    delimited(3, delimited(1, [...varintField(1, 5), ...delimited(2, delimited(15, [3]))])),
  );
  const read = requests.read(bytes, 0, bytes.length) as ProcessRequest;
  expect(read).toEqual({
    case: "step",
    value: {
      actions: [{ uid: 5, tensor: { dtype: "unset", shape: [3], data: [] } }],
      requestedObservations: [],
    },
  });
  expect(encode(requests, read)).toEqual(bytes);
});

test("a known field of another wire type is an unknown field", () => {
  const bytes = Uint8Array.from([
    ...tag(3, 0),
    7,
    ...delimited(3, [...varintField(1, 9), ...tag(2, 5), 1, 2, 3, 4, ...varintField(2, 8)]),
  ]);
  expect(requests.read(bytes, 0, bytes.length)).toEqual({
    case: "step",
    value: { actions: [], requestedObservations: [8] },
  });
});

test("behaviour 18: UIDs are exact beyond 2^53", () => {
  const uid = 2n ** 64n - 1n;
  const message: ProcessRequest = {
    case: "step",
    value: { actions: [{ uid, tensor: pack(1) }], requestedObservations: [2 ** 53 - 1, 2n ** 53n] },
  };
  const bytes = encode(requests, message);
  expect(requests.read(bytes, 0, bytes.length)).toEqual(message);
});

test("only the last tensor of a duplicate UID remains, among few and among many entries", () => {
  for (const count of [3, 100]) {
    const few = Array.from({ length: count }, (_, uid) => ({ uid, tensor: pack(uid) }));
    const again = few.map(({ uid }) => ({ uid, tensor: pack(-uid - 1) }));
    const message: ProcessRequest = {
      case: "step",
      value: { actions: [...few, ...again], requestedObservations: [] },
    };
    const bytes = encode(requests, message);
    expect(requests.read(bytes, 0, bytes.length)).toEqual({
      case: "step",
      value: { actions: again, requestedObservations: [] },
    });
  }
});

test("settings in a payload other than a step keep the entries of their maps", () => {
  const payload = {
    case: "createWorld" as const,
    value: create(CreateWorldRequestSchema, { settings: { a: packTensor(pack("x")) } }),
  };
  const bytes = encode<ProcessRequest>(requests, payload);
  expect(requests.read(bytes, 0, bytes.length)).toEqual(payload);
});

function withoutUnknown<T extends ProcessRequest | ProcessResponse>(message: T): T {
  if (message.case !== "step" && message.value !== undefined) {
    const { $unknown: _, ...value } = message.value;
    return { ...message, value };
  }
  return message;
}

test("a payload whose bytes are kept is encoded once, for all codecs", () => {
  let reads = 0;
  const status = create(StatusSchema, { code: 8 });
  Object.defineProperty(status, "message", {
    get: () => {
      reads += 1;
      return "too many requests";
    },
  });
  const message: ProcessResponse = { case: "error", value: keepBytes(status) };
  const bytes = encode(responses, message);
  const readsOfOne = reads;
  expect(readsOfOne).toBeGreaterThan(0);
  expect(encode(responses, message)).toEqual(bytes);
  expect(encode(createResponseCodec(), { ...message })).toEqual(bytes);
  expect(reads).toBe(readsOfOne);
  expect(fromBinary(EnvironmentResponseSchema, bytes).payload).toMatchObject({
    case: "error",
    value: { code: 8, message: "too many requests" },
  });
});
