// SPDX-License-Identifier: Apache-2.0
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { stepRequest } from "../testing/messages.ts";
import { bytesOf, frame, rawCall } from "../testing/raw-call.ts";
import { record } from "../testing/recorder.ts";
import { type Serving, serving } from "../testing/serving.ts";

const half = (bytes: number): Buffer => frame(Buffer.alloc(2 * bytes)).subarray(0, 5 + bytes);

/** Sends each part on a stream and a connection of its own. */
function callEach(server: Serving, parts: readonly Buffer[], headers = {}) {
  return parts.map((bytes) => {
    const call = rawCall(server.address, headers);
    call.http2.write(bytes);
    return call;
  });
}

/** Accepts the next streams and starts them; with `pausing` they pause at once. */
async function taking(server: Serving, count: number, pausing = false) {
  const taken = [];
  for (let i = 0; i < count; i++) {
    const stream = await server.next();
    taken.push(record(stream, pausing ? { onMessage: () => stream.pause() } : {}));
  }
  return taken;
}

test("half messages past the limit of a connection end the stream that exceeds it", async () => {
  await using server = await serving({ maxBufferedBytesPerConnection: 100_000 });
  await using call = rawCall(server.address);
  const path = { ":method": "POST", ":path": "/dm_env_rpc.v1.Environment/Process" };
  const second = call.session.request({ ...path, "content-type": "application/grpc" });
  second.resume();
  const [one, two] = await taking(server, 2);
  call.http2.write(half(90_000));
  second.write(half(60_000));
  await Promise.race([one?.seen("close"), two?.seen("close")]);
  const ends = [one, two].filter((end) => end?.error !== undefined);
  expect(ends).toHaveLength(1);
  expect(ends[0]?.error).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  expect(String(ends[0]?.error)).toContain("limit: maxBufferedBytesPerConnection");
});

test("one message of one stream always fits", async () => {
  await using server = await serving({ maxBufferedBytesPerConnection: 1000 });
  await using call = rawCall(server.address);
  call.http2.write(frame(bytesOf(stepRequest(200_000))));
  const [stream] = await taking(server, 1);
  await stream?.seen("message");
});

test("past the limit of a server the stream that holds the most ends", async () => {
  await using server = await serving({ maxBufferedBytes: 300_000 });
  const calls = callEach(server, [half(250_000)]);
  const [large] = await taking(server, 1);
  calls.push(...callEach(server, [half(30_000), half(30_000)]));
  const small = await taking(server, 2);
  await large?.seen("close");
  expect(String(large?.error)).toContain("limit: maxBufferedBytes)");
  expect(small.map(({ error }) => error)).toEqual([undefined, undefined]);
  for (const call of calls) {
    await call[Symbol.asyncDispose]();
  }
});

test("inflated messages count until they are delivered", async () => {
  await using server = await serving({ maxBufferedBytes: 1_500_000 });
  const bomb = frame(gzipSync(bytesOf(stepRequest(1_000_000))), 1);
  const calls = callEach(server, [bomb, bomb], { "grpc-encoding": "gzip" });
  const streams = await taking(server, 2, true);
  await Promise.race(streams.map((stream) => stream.seen("close")));
  expect(streams.filter(({ error }) => error === undefined)).toHaveLength(1);
  for (const call of calls) {
    await call[Symbol.asyncDispose]();
  }
});

test("gzip data larger than its declared size is not inflated further", async () => {
  await using server = await serving();
  const lie = gzipSync(Buffer.alloc(1_000_000));
  lie.writeUInt32LE(10, lie.length - 4);
  const calls = callEach(server, [frame(lie, 1)], { "grpc-encoding": "gzip" });
  const [stream] = await taking(server, 1);
  await stream?.seen("close");
  expect(String(stream?.error)).toContain("more than the 10 bytes that it says");
  for (const call of calls) {
    await call[Symbol.asyncDispose]();
  }
});

test("a message that stalls half-way ends its stream, and a slow one does not", async () => {
  await using server = await serving({ stalledMessageMs: 200 });
  const calls = callEach(server, [half(1000), half(1000), half(1000).subarray(0, 3)]);
  const streams = await taking(server, 3);
  const [, moving] = calls;
  const drip = setInterval(() => moving?.http2.write(Buffer.alloc(1)), 10);
  const stalled = streams.map(async (stream) => {
    await stream.seen("close");
    return stream;
  });
  const first = await Promise.race(stalled);
  expect(first.error).toMatchObject({ code: "DEADLINE_EXCEEDED" });
  expect(String(first.error)).toContain("limit: stalledMessageMs");
  expect(streams[1]?.error).toBe(undefined);
  clearInterval(drip);
  for (const call of calls) {
    await call[Symbol.asyncDispose]();
  }
});

test("a stream that waits for its receiver is not stalled", async () => {
  await using server = await serving({ stalledMessageMs: 100 });
  const message = frame(bytesOf(stepRequest(1000)));
  const calls = callEach(server, [Buffer.concat([message, message.subarray(0, 500)]), half(1000)]);
  const [paused, stalled] = await taking(server, 2, true);
  await Promise.race([paused?.seen("close"), stalled?.seen("close")]);
  expect([paused, stalled].filter((stream) => stream?.error !== undefined)).toHaveLength(1);
  for (const call of calls) {
    await call[Symbol.asyncDispose]();
  }
});
