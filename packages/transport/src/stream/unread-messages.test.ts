// SPDX-License-Identifier: Apache-2.0
import type { Malformed } from "@dm-env-rpc/tensor-codec/wire";
import { expect, test } from "vitest";
import { UnreadMessages } from "./unread-messages.ts";

/** The bytes of a message, and the memory that they keep alive. */
interface Read {
  readonly bytes: readonly number[];
  readonly memory: ArrayBufferLike;
}

const decoder = {
  read: (source: Uint8Array, start = 0, end: number = source.length): Read | Malformed => ({
    bytes: [...source.subarray(start, end)],
    memory: source.buffer,
  }),
};

function memoryOf(read: Read | Malformed): ArrayBufferLike {
  return (read as Read).memory;
}

/** A Buffer, as node:http2 delivers it. Its `slice` shares its memory; the `slice` of a Uint8Array copies. */
const chunk: Uint8Array = Buffer.from(
  Uint8Array.from({ length: 65_536 }, (_, i) => i % 251).buffer,
);

test("small messages share memory of 2 KiB, and keep their bytes and their order", () => {
  const unread = new UnreadMessages(decoder);
  const messages = Array.from({ length: 1_000 }, (_, i) => unread.add(chunk, 10 * i, 10 * i + 10));
  const reads = messages.map((message) => message.read() as Read);
  expect(reads.map(({ bytes }) => bytes)).toEqual(
    messages.map((_, i) => [...chunk.subarray(10 * i, 10 * i + 10)]),
  );
  const memories = new Set(reads.map(({ memory }) => memory));
  expect(memories.size).toBe(5);
  expect([...memories].map(({ byteLength }) => byteLength)).toEqual(Array(5).fill(2_048));
});

test("a slab is dropped once all messages in it are read", () => {
  const unread = new UnreadMessages(decoder);
  const [first, second] = [unread.add(chunk, 0, 10), unread.add(chunk, 10, 20)];
  const memory = memoryOf(first.read());
  expect(memoryOf(first.read())).toBe(memory); // A message may be read twice.
  expect(memoryOf(unread.add(chunk, 20, 30).read())).toBe(memory); // The second one still waits.
  second.read();
  expect(memoryOf(unread.add(chunk, 30, 40).read())).not.toBe(memory);
});

test("a message above 256 bytes is copied if it is less than half of its chunk", () => {
  const unread = new UnreadMessages(decoder);
  expect(memoryOf(unread.add(chunk, 0, 1_000).read()).byteLength).toBe(1_000);
  expect(memoryOf(unread.add(chunk, 0, 40_000).read())).toBe(chunk.buffer);
});
