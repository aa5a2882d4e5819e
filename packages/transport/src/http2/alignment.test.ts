// SPDX-License-Identifier: Apache-2.0
import { createResponseCodec } from "@dm-env-rpc/tensor-codec/wire";
import { expect, test } from "vitest";
import { stepResponse } from "../testing/messages.ts";
import { AlignmentLearner } from "./alignment.ts";

const codec = createResponseCodec();

function encoded(response: Parameters<typeof codec.size>[0]): Uint8Array {
  const bytes = new Uint8Array(codec.size(response));
  codec.write(response, bytes, 0);
  return bytes;
}

function floats(count: number): ReturnType<typeof stepResponse> {
  const response = stepResponse(8);
  if (response.case !== "step") {
    throw new Error("expected a step");
  }
  const tensor = { dtype: "float32", shape: [count], data: new Float32Array(count) } as const;
  return { case: "step", value: { ...response.value, observations: [{ uid: 1, tensor }] } };
}

/** Reads a message at the offset that the learner chose; returns true if its tensor is a view. */
function readOnce(learner: AlignmentLearner, bytes: Uint8Array): boolean {
  const memory = new Uint8Array(learner.lead + bytes.length);
  memory.set(bytes, learner.lead);
  const message = codec.read(memory, learner.lead, memory.length);
  learner.observe(message, bytes.length, memory.buffer);
  const data = message.case === "step" ? message.value.observations[0]?.tensor.data : undefined;
  return ArrayBuffer.isView(data) && data.buffer === memory.buffer;
}

test("after a few messages of one size, their tensors are views", () => {
  for (const count of [1_000, 10_000, 100_000]) {
    const learner = new AlignmentLearner();
    const bytes = encoded(floats(count));
    const views = Array.from({ length: 20 }, () => readOnce(learner, bytes));
    expect(views.slice(8)).toEqual(new Array(12).fill(true));
  }
});

test("the offset is learned again for messages of another size, and stays the same for messages without floats", () => {
  const learner = new AlignmentLearner();
  for (const bytes of [encoded(floats(1_000)), encoded(floats(20_000))]) {
    const views = Array.from({ length: 10 }, () => readOnce(learner, bytes));
    expect(views.at(-1)).toBe(true);
  }
  const { lead } = learner;
  expect(readOnce(learner, encoded(stepResponse(5_000)))).toBe(true);
  expect(learner.lead).toBe(lead);
});
