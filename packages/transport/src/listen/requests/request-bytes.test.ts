// SPDX-License-Identifier: Apache-2.0
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { frame } from "../../testing/raw-call.ts";
import { RequestBytes } from "./request-bytes.ts";

const readBytes = 64 * 1024;

/** A request whose consumer reads one chunk at a time. */
function counted(first?: Buffer) {
  const request = new Readable({ read() {} });
  if (first !== undefined) {
    request.push(first);
  }
  let growths = 0;
  let pieces = 0;
  const bytes = new RequestBytes(request, {
    pieceBytes: 5,
    onGrowth: () => {
      growths += 1;
    },
    onPiece: () => {
      pieces += 1;
    },
  });
  return {
    request,
    bytes,
    read: () => bytes.read(request.read()),
    counts: () => ({ growths, pieces }),
  };
}

test("the received bytes of a request are counted until they are delivered", () => {
  const { request, bytes } = counted();
  request.push(Buffer.alloc(1_000));
  expect(bytes.bytes).toBe(1_000);
  request.push(Buffer.alloc(1_000));
  expect(bytes.bytes).toBe(2_256);
});

test("a message that was read is counted until its last byte has been read", () => {
  const { request, bytes, read, counts } = counted();
  bytes.begin(true);
  const message = frame(Buffer.alloc(1_000));
  for (const [from, to] of [
    [0, 3],
    [3, 5],
    [5, 1_004],
  ] as const) {
    request.push(message.subarray(from, to));
    read();
    expect(bytes.bytes % 256).toBe(to % 256); // 256 for each chunk but the first.
    expect(bytes.bytes).toBeGreaterThanOrEqual(to);
  }
  expect(counts()).toEqual({ growths: 5, pieces: 2 });
  request.push(Buffer.concat([message.subarray(1_004), frame(Buffer.alloc(0)), message]));
  read();
  expect(bytes.bytes).toBe(0);
});

test("a request that is delivered whole is counted until the consumer ends, even if its message is complete", () => {
  const { request, bytes, read } = counted();
  bytes.begin(false);
  request.push(frame(Buffer.alloc(1_000)));
  read();
  expect(bytes.bytes).toBe(1_005);
  bytes.end();
  expect(bytes.bytes).toBe(0);
});

test("chunks that a layer in between has read, and the consumer has not, are counted", () => {
  const { request, bytes } = counted();
  bytes.begin(true);
  request.push(frame(Buffer.alloc(1_000)));
  const chunk = request.read();
  expect(bytes.bytes).toBe(1_005);
  bytes.read(chunk);
  expect(bytes.bytes).toBe(0);
});

test("bytes that arrived earlier are counted", () => {
  const { bytes, read } = counted(Buffer.alloc(1_000));
  expect(bytes.bytes).toBe(1_000);
  bytes.begin(false);
  read();
  expect(bytes.bytes).toBe(1_000);
});

test("countRead counts until its consumer stops", async () => {
  const { request, bytes } = counted();
  request.push(Buffer.alloc(100));
  for await (const chunk of bytes.countRead(request.iterator({ destroyOnReturn: false }), false)) {
    expect(chunk).toHaveLength(100);
    expect(bytes.bytes).toBe(100);
    break;
  }
  expect(bytes.bytes).toBe(0);
});

test("the consumer receives a small chunk without the memory of its read", () => {
  const { request, bytes, read } = counted();
  bytes.begin(true);
  request.push(Buffer.from(new ArrayBuffer(readBytes), 0, 1_000));
  expect(read().buffer.byteLength).toBe(1_000);
  request.push(Buffer.from(new ArrayBuffer(readBytes), 0, 20_000));
  expect(read().buffer.byteLength).toBe(readBytes);
});
