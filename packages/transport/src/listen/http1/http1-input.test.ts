// SPDX-License-Identifier: Apache-2.0
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { turnKeyOf } from "../../internal/turns/network-turns.ts";
import { LoopTurns, ThreadShare } from "../../internal/turns/thread-share.ts";
import { Http1Input } from "./http1-input.ts";

/** A stream that defines `_read` in its class, as a socket does. */
class Source extends Readable {
  reads = 0;

  override _read(): void {
    this.reads += 1;
  }
}

/**
 * A socket whose bytes are passed on in turns that `turn` begins, with the sizes of the received chunks.
 *
 * @param requests Number of requests that wait for their responses.
 */
function sliced(first?: Buffer, requests = 0) {
  const tasks: (() => void)[] = [];
  const share = new ThreadShare(
    new LoopTurns(
      () => 0,
      (task) => void tasks.push(task),
    ),
    1,
  );
  const socket = new Source();
  if (first !== undefined) {
    socket.push(first);
  }
  const input = new Http1Input(socket, turnKeyOf("192.0.2.1:1"), share, () => requests);
  const received: number[] = [];
  let hasEnded = false;
  socket.on("data", (chunk) => received.push(chunk.length));
  socket.on("end", () => {
    hasEnded = true;
  });
  return {
    socket,
    share,
    input,
    received,
    reads: () => socket.reads,
    hasEnded: () => hasEnded,
    async turn() {
      await new Promise((resolve) => setImmediate(resolve)); // The stream asks for more.
      for (const task of tasks.splice(0)) {
        task();
      }
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

test("a small chunk is passed on at once, unless the turn is over", async () => {
  const { socket, share, received, turn } = sliced();
  await turn();
  expect(socket.push(Buffer.alloc(1_000))).toBe(true);
  expect(received).toEqual([1_000]);
  share.count();
  expect(share.isOver).toBe(true);
  expect(socket.push(Buffer.alloc(500))).toBe(false);
  expect(received).toEqual([1_000]);
  await turn();
  expect(received).toEqual([1_000, 500]);
});

test("the time in which a chunk is parsed counts for the turn", async () => {
  let nowMs = 0;
  const tasks: (() => void)[] = [];
  const share = new ThreadShare(
    new LoopTurns(
      () => nowMs,
      (task) => void tasks.push(task),
    ),
  );
  const socket = new Source();
  new Http1Input(socket, turnKeyOf("192.0.2.1:1"), share, () => 0);
  socket.on("data", () => {
    nowMs += 5;
  });
  await new Promise((resolve) => setImmediate(resolve));
  share.count();
  expect(socket.push(Buffer.alloc(1_000))).toBe(true);
  expect(share.isOver).toBe(true);
});

test("a large chunk is passed on in slices, one per turn, and nothing is read meanwhile", async () => {
  const { socket, input, received, reads, turn } = sliced();
  await turn();
  const readsBefore = reads();
  expect(socket.push(Buffer.alloc(40_000))).toBe(false);
  expect(input.waitingBytes).toBe(40_000);
  await turn();
  expect(received).toEqual([16_384]);
  expect(reads()).toBe(readsBefore);
  await turn();
  await turn();
  expect(received).toEqual([16_384, 16_384, 7_232]);
  expect(input.waitingBytes).toBe(0);
  expect(reads()).toBeGreaterThan(readsBefore);
});

test("bytes that were put back, and those that TLS reads on, are sliced, and the end follows them", async () => {
  const { socket, received, hasEnded, turn } = sliced(Buffer.alloc(17_000));
  socket.push(Buffer.alloc(1_000));
  socket.push(null);
  await turn();
  expect(received).toEqual([16_384]);
  expect(hasEnded()).toBe(false);
  await turn();
  expect(received).toEqual([16_384, 1_616]);
  expect(hasEnded()).toBe(true);
});

test("a stopped input drops what waits and what arrives later", async () => {
  const { socket, input, received, turn } = sliced(Buffer.alloc(17_000));
  await turn();
  input.stop();
  expect(input.waitingBytes).toBe(0);
  expect(socket.push(Buffer.alloc(1_000))).toBe(false);
  await turn();
  expect(received).toEqual([16_384]);
});

test("a released socket passes on everything at once", async () => {
  const { socket, input, received, turn } = sliced(Buffer.alloc(17_000));
  await turn();
  expect(input.release()).toHaveLength(616);
  socket.push(Buffer.alloc(40_000));
  expect(received).toEqual([16_384, 40_000]);
});

test("a released socket ends after the bytes that waited before its end", async () => {
  const { socket, input, hasEnded, turn } = sliced(Buffer.alloc(17_000));
  socket.push(null);
  await turn();
  expect(input.release()).toHaveLength(616);
  expect(hasEnded()).toBe(false);
  await turn();
  expect(hasEnded()).toBe(true);
});

test("the requests of a chunk are passed on seventeen at a time", async () => {
  const { socket, input, received, turn } = sliced();
  const request = Buffer.from("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  await turn();
  socket.push(Buffer.alloc(16 * request.length, request));
  expect(received).toEqual([16 * request.length]);
  socket.push(Buffer.alloc(40 * request.length, request));
  await turn();
  expect(received.slice(1)).toEqual([17 * request.length]);
  expect(input.waitingBytes).toBe(23 * request.length);
  await turn();
  await turn();
  expect(received.slice(2)).toEqual([17 * request.length, 6 * request.length]);
});

test("a connection without requests closes at once", async () => {
  const { socket } = sliced();
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.destroy();
  await closed;
});

test("the end of a connection with requests takes a turn, and so does its close", async () => {
  const { socket, hasEnded, turn } = sliced(undefined, 16);
  let isClosed = false;
  socket.once("close", () => {
    isClosed = true;
  });
  await turn();
  socket.push(null);
  await new Promise((resolve) => setImmediate(resolve));
  expect(hasEnded()).toBe(false);
  await turn();
  expect(hasEnded()).toBe(true);
  expect(isClosed).toBe(false);
  await turn();
  expect(isClosed).toBe(true);
});
