// SPDX-License-Identifier: Apache-2.0
import type { EnvironmentStateType } from "@dm-env-rpc/protocol";
import fc from "fast-check";
import { expect, test } from "vitest";
import { anyDType, data, shapes, uids } from "../../../testing/arbitraries.ts";
import { show } from "../../../testing/fuzz.ts";
import { choices, plain } from "../../../testing/layouts.ts";
import { mutate, seeded } from "../../../testing/mutate.ts";
import { delimited } from "../../../testing/protobuf.ts";
import { layStepRequest, layStepResponse, type Step } from "../../../testing/step-layouts.ts";
import { encode } from "../../../testing/steps.ts";
import { pack } from "../../packing/pack.ts";
import { elementCount, type Tensor } from "../../tensors/tensor.ts";
import { createRequestCodec, createResponseCodec } from "../index.ts";
import type { MessageCodec, ProcessRequest, ProcessResponse } from "../messages.ts";
import { stepResponseCodec } from "../response.ts";
import { Layouts } from "./layout.ts";
import { LayoutWriter } from "./layout-writer.ts";
import type { UidTensor } from "./step.ts";

/** Steps with the same UIDs, dtypes and shapes: a sequence of them has one layout, or a few. */
const alike: fc.Arbitrary<Step[]> = fc
  .uniqueArray(fc.record({ uid: uids, dtype: anyDType, shape: shapes }), {
    selector: ({ uid }) => uid,
    maxLength: 5,
  })
  .chain((entries) =>
    fc.array(
      fc.record({
        entries: fc.tuple(
          ...entries.map(({ uid, dtype, shape }) =>
            data(dtype, elementCount(shape)).map((elements) => ({
              uid,
              tensor: { dtype, shape, data: elements } as Tensor,
            })),
          ),
        ),
        numbers: fc.array(fc.constantFrom(0, 1, 2, 3, 127, 128, 300), { maxLength: 1 }),
      }),
      { minLength: 2, maxLength: 6 },
    ),
  );

const requestOf = ({ entries, numbers }: Step): ProcessRequest => ({
  case: "step",
  value: { actions: entries, requestedObservations: numbers },
});
const responseOf = ({ entries, numbers }: Step): ProcessResponse => ({
  case: "step",
  value: { state: Number(numbers[0] ?? 0) as EnvironmentStateType, observations: entries },
});

const limits = { maxElements: 300, maxStringBytes: 30, maxEntries: 3 };

/** Reads messages with one codec, and each with a new codec, and compares the results. */
function compareReading<T>(
  codec: MessageCodec<T>,
  make: () => MessageCodec<T>,
  messages: readonly Uint8Array[],
): void {
  for (const bytes of messages) {
    const placed = Buffer.concat([Buffer.from("before"), bytes, Buffer.from("behind")]);
    const end = placed.length - 6;
    expect(show(codec.read(placed, 6, end))).toBe(show(make().read(placed, 6, end)));
  }
}

test("a step reads the same with a known layout as without one, also from changed and truncated bytes", () => {
  fc.assert(
    fc.property(
      alike,
      fc.oneof(fc.constant(plain), choices),
      fc.array(fc.nat()),
      fc.boolean(),
      fc.boolean(),
      (steps, choose, seeds, limited, borrowScalars) => {
        const options = limited ? limits : {};
        const asBytes = (parts: number[][]) =>
          Uint8Array.from(parts.flatMap((part) => delimited(3, part)));
        const changed = (messages: Uint8Array[]) =>
          messages.flatMap((bytes, i) => {
            const seed = seeds[i];
            return seed === undefined ? [bytes] : [bytes, mutate(bytes, seeded(seed)), bytes];
          });
        compareReading(
          createRequestCodec({ ...options, borrowScalars }),
          () => createRequestCodec(options),
          changed(steps.map((step) => asBytes(layStepRequest(step, choose)))),
        );
        compareReading(
          createResponseCodec({ ...options, borrowScalars }),
          () => createResponseCodec(options),
          changed(steps.map((step) => asBytes(layStepResponse(step, choose)))),
        );
      },
    ),
    { numRuns: 300 },
  );
});

test("a step is written the same with a known layout as without one", () => {
  fc.assert(
    fc.property(fc.array(alike, { minLength: 1, maxLength: 3 }), (sequences) => {
      const requests = createRequestCodec();
      const responses = createResponseCodec();
      for (const step of sequences.flat()) {
        expect(encode(requests, requestOf(step))).toEqual(
          encode(createRequestCodec(), requestOf(step)),
        );
        expect(encode(responses, responseOf(step))).toEqual(
          encode(createResponseCodec(), responseOf(step)),
        );
      }
    }),
    { numRuns: 300 },
  );
});

const response = (reward: number, state = 1): ProcessResponse & { case: "step" } => ({
  case: "step",
  value: {
    state: state as EnvironmentStateType,
    observations: [
      { uid: 1, tensor: pack(reward, { dtype: "float32" }) },
      { uid: 2, tensor: pack([[1, 2, 3]], { dtype: "uint8" }) },
    ],
  },
});

test("a message with the layout of the previous one shares its shapes, but not its elements", () => {
  const codec = createResponseCodec();
  const [, first, second] = [response(0), response(1), response(2, 3)].map((message) => {
    const bytes = encode(createResponseCodec(), message);
    const read = codec.read(bytes, 0, bytes.length);
    if (read.case !== "step") {
      throw new Error("expected a step");
    }
    return read.value;
  });
  expect(second?.observations[1]?.tensor.shape).toBe(first?.observations[1]?.tensor.shape);
  expect(first?.observations[0]?.tensor.data).toEqual(Float32Array.of(1));
  expect(second?.observations[0]?.tensor.data).toEqual(Float32Array.of(2));
  expect([first?.state, second?.state]).toEqual([1, 3]);
});

test("with borrowScalars, the next message reuses the scalars and nothing else", () => {
  const codec = createResponseCodec({ borrowScalars: true });
  const reads = [0, 1, 2].map((reward) => {
    const bytes = encode(createResponseCodec(), response(reward));
    const read = codec.read(bytes, 0, bytes.length);
    if (read.case !== "step") {
      throw new Error("expected a step");
    }
    const [scalar, board] = read.value.observations as [UidTensor, UidTensor];
    return { scalar: scalar.tensor, board: board.tensor, value: scalar.tensor.data[0] };
  });
  expect(reads.map(({ value }) => value)).toEqual([0, 1, 2]);
  expect(reads[2]?.scalar).toBe(reads[1]?.scalar);
  expect(reads[1]?.scalar.data[0]).toBe(2);
  expect(reads[2]?.board).not.toBe(reads[1]?.board);
});

test("a layout is known after it was written once, and other layouts are not", () => {
  const writer = new LayoutWriter(stepResponseCodec);
  const bytes = encode(createResponseCodec(), response(1));
  expect(writer.size(response(1).value)).toBe(-1);
  writer.learn(response(1).value, bytes, 0, 2, bytes.length);
  expect(writer.size(response(2, 3).value)).toBe(bytes.length);
  expect(writer.size(response(2, 0).value)).toBe(-1);
  expect(writer.size(response(2, 128).value)).toBe(-1);
  const [reward, board] = response(2).value.observations as [UidTensor, UidTensor];
  const others: UidTensor[] = [
    { uid: 2, tensor: pack([[1, 2, 3, 4]], { dtype: "uint8" }) },
    { uid: 2, tensor: pack([[1], [2], [3]], { dtype: "uint8" }) },
    { uid: 2, tensor: pack([[1, 2, 3]], { dtype: "int8" }) },
    { uid: 3, tensor: board.tensor },
  ];
  for (const other of others) {
    expect(writer.size({ state: 1, observations: [reward, other] })).toBe(-1);
  }
  expect(writer.size({ state: 1, observations: [reward] })).toBe(-1);
});

test("a layout that was reused is kept, even after many layouts that are used once", () => {
  const layouts = new Layouts<string>();
  const found = (layout: string): void => {
    const index = layouts.recent.indexOf(layout);
    if (index < 0) {
      layouts.learn(layout);
    } else {
      layouts.recordUse(index);
    }
  };
  for (let i = 0; i < 20; i++) {
    found(`once, at first ${i}`);
    found("again");
  }
  for (let i = 0; i < 1_000; i++) {
    found(`once, later ${i}`);
  }
  expect(layouts.recent).toContain("again");
  expect(layouts.recent).toHaveLength(16);
});
