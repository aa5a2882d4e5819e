// SPDX-License-Identifier: Apache-2.0
import type { ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { expect, test } from "vitest";
import { answering } from "../testing/answering.ts";
import { stepRequest, stepResponse } from "../testing/messages.ts";
import { ChunkMemory } from "./chunk-memory.ts";

const frame = 16 * 1024;

/** Chunks of one read: whole frames with their headers, and `more` bytes of the next frame. */
function read(frames: number, more = 0): Buffer[] {
  const buffer = new ArrayBuffer(frames * (9 + frame) + more);
  return Array.from({ length: frames }, (_, i) => Buffer.from(buffer, 9 + i * (9 + frame), frame));
}

const copy = (memory: ChunkMemory, chunks: readonly Buffer[]): void => {
  for (const chunk of chunks) {
    memory.copied(chunk);
  }
};

/** A ChunkMemory that has copied enough large messages to start freeing. */
function patient(): ChunkMemory {
  const memory = new ChunkMemory();
  for (let i = 0; i < 200; i++) {
    copy(memory, read(4));
  }
  return memory;
}

const isFreed = ([first]: readonly Buffer[]): boolean => first?.buffer.byteLength === 0;

test("the memory of a read is freed when the next read arrives, if all of it was copied", () => {
  const memory = patient();
  const [one, two] = [read(4), read(4)];
  copy(memory, one);
  expect(isFreed(one)).toBe(false);
  copy(memory, two);
  expect(isFreed(one)).toBe(true);
  expect(isFreed(two)).toBe(false);
});

test.each([
  ["of which a chunk was not copied", read(4).slice(1)],
  ["that ends with bytes of a frame that was not copied", read(4, 9 + 5)],
  ["that is small", read(1).map((chunk) => Buffer.from(chunk.buffer.slice(0, 9_000), 9))],
])("a read %s is not freed", (_, chunks) => {
  const memory = patient();
  copy(memory, chunks);
  copy(memory, read(4));
  expect(isFreed(chunks)).toBe(false);
});

test("the memory of a few large messages is left to the garbage collector", () => {
  const memory = new ChunkMemory();
  const reads = Array.from({ length: 100 }, () => read(4));
  for (const chunks of reads) {
    copy(memory, chunks);
  }
  expect(reads.some(isFreed)).toBe(false);
});

const actionOf = (request: unknown): Uint8Array =>
  (request as Extract<ProcessRequest, { case: "step" }>).value.actions[0]?.tensor
    .data as Uint8Array;

const dataOf = (message: unknown): Uint8Array =>
  (message as Extract<ProcessResponse, { case: "step" }>).value.observations[0]?.tensor
    .data as Uint8Array;

test("large and small messages of one packet arrive unchanged and stay unchanged", async () => {
  await using pair = await answering((request) => {
    const action = actionOf(request);
    return stepResponse(1_000 * action.length, action[0]);
  });
  const { stream, seen } = pair;
  const sizes = Array.from({ length: 400 }, (_, i) => (i % 3 === 0 ? 90 : i % 7 === 0 ? 20 : 1));
  for (const [i, size] of sizes.entries()) {
    stream.send(stepRequest(size, i % 251));
  }
  await seen.seen("message", sizes.length);
  for (const [i, size] of sizes.entries()) {
    const data = dataOf(seen.messages[i]);
    expect(data.length).toBe(1_000 * size);
    expect(data.every((byte) => byte === i % 251)).toBe(true);
  }
});

test("the memory of a client that recycles large observations does not grow", async () => {
  const answer = stepResponse(200_000, 7);
  await using pair = await answering(() => answer);
  const { stream, seen } = pair;
  const held: number[] = [];
  for (let i = 0; i < 260; i++) {
    stream.recycle?.();
    stream.send(stepRequest(1));
    await seen.seen("message", i + 1);
    expect(dataOf(seen.messages[i])[199_999]).toBe(7);
    held.push(process.memoryUsage().arrayBuffers);
  }
  // The last 150 steps received 30 MB. Their maximum is compared, because a garbage collection can
  // lower the last figure.
  const late = held.slice(110);
  expect(Math.max(...late) - (late[0] as number)).toBeLessThan(8e6);
});
