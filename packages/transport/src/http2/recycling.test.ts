// SPDX-License-Identifier: Apache-2.0
import type { Malformed, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { expect, test } from "vitest";
import { type Answered, answering } from "../testing/answering.ts";
import { answered, answerOf, named, stepRequest, stepResponse } from "../testing/messages.ts";

/** Size of an observation: larger than a chunk of node:http2, so that the message is assembled. */
const large = 300_000;

/** Sends a step and waits for its response. */
async function step({ stream, seen }: Answered, fill: number): Promise<Uint8Array> {
  const { length } = seen.messages;
  stream.send(stepRequest(1, fill));
  await seen.seen("message", length + 1);
  return dataOf(seen.messages.at(-1));
}

function dataOf(message: ProcessResponse | Malformed | undefined): Uint8Array {
  if (message?.case !== "step") {
    throw new Error(`expected a step, received ${message?.case}`);
  }
  return message.value.observations[0]?.tensor.data as Uint8Array;
}

/**
 * A client of a server that answers each step with a large observation. Every byte of it is the value of the action.
 */
const connected = (): Promise<Answered> =>
  answering((request) => {
    if (request.case !== "step") {
      return answered("x".repeat(large));
    }
    return stepResponse(large, request.value.actions[0]?.tensor.data[0] as number);
  });

test("the memory of a step is reused after recycle", async () => {
  await using client = await connected();
  client.stream.recycle?.();
  const first = await step(client, 1);
  expect(first.every((byte) => byte === 1)).toBe(true);
  client.stream.recycle?.();
  const second = await step(client, 2);
  expect(second.buffer).toBe(first.buffer);
  expect(second.every((byte) => byte === 2)).toBe(true);
});

test("without recycle, every step has memory of its own", async () => {
  await using client = await connected();
  const never = [await step(client, 1), await step(client, 2)];
  client.stream.recycle?.();
  // Only memory of steps delivered before the last `recycle` is reused.
  const since = [await step(client, 3), await step(client, 4), await step(client, 5)];
  const all = [...never, ...since];
  expect(new Set(all.map(({ buffer }) => buffer)).size).toBe(5);
  expect(all.map((data) => data.every((byte) => byte === data[0]) && data[0])).toEqual([
    1, 2, 3, 4, 5,
  ]);
});

test("messages other than steps keep their memory", async () => {
  await using client = await connected();
  client.stream.recycle?.();
  const first = await step(client, 1);
  client.stream.send(named("any"));
  await client.seen.seen("message", 2);
  client.stream.recycle?.();
  const second = await step(client, 2);
  expect(answerOf(client.seen.messages[1])).toBe("x".repeat(large));
  expect(second.buffer).toBe(first.buffer);
});
