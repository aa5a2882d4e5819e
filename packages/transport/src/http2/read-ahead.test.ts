// SPDX-License-Identifier: Apache-2.0
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { owned } from "../assembly/owned.ts";
import { ReadAhead } from "./read-ahead.ts";

const readBytes = 64 * 1024;

/** A stream whose chunks are views of a read of 64 KB, with the counts of its events. */
function watched() {
  const stream = new Readable({ read() {} });
  let growths = 0;
  let pieces = 0;
  const readAhead = new ReadAhead(stream, {
    pieceBytes: 5,
    onGrowth: () => {
      growths += 1;
    },
    onPiece: () => {
      pieces += 1;
    },
  });
  return {
    stream,
    readAhead,
    push: (bytes: number) => stream.push(Buffer.from(new ArrayBuffer(readBytes), 0, bytes)),
    counts: () => [growths, pieces, readAhead.overheadBytes],
  };
}

test("once the consumer is behind, each chunk is counted when it arrives", () => {
  const { stream, push, counts } = watched();
  push(20_000);
  expect(counts()).toEqual([0, 0, 0]);
  push(100);
  push(1);
  expect(counts()).toEqual([2, 1, 512]);
  stream.read();
  expect(counts()).toEqual([2, 1, 0]);
  push(100);
  expect(counts()).toEqual([2, 1, 0]);
});

test("a small chunk that waits behind others does not keep the memory of its read", () => {
  const { stream, push } = watched();
  const received: number[] = [];
  push(1_000);
  push(1_000);
  push(20_000);
  stream.push(null);
  for (let chunk = stream.read(1_000); chunk !== null; chunk = stream.read(1_000)) {
    received.push(chunk.buffer.byteLength);
  }
  expect(received[0]).toBe(readBytes);
  expect(received[1]).toBeLessThan(readBytes);
  expect(received[2]).toBe(readBytes);
});

test("owned copies a chunk that is less than a quarter of the memory that it keeps", () => {
  const read = new ArrayBuffer(readBytes);
  const small = Buffer.from(read, 0, readBytes / 4 - 1);
  const large = Buffer.from(read, 0, readBytes / 4);
  expect(owned(small)).toEqual(small);
  expect(owned(small).buffer).not.toBe(read);
  expect(owned(large)).toBe(large);
});
