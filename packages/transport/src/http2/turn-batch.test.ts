// SPDX-License-Identifier: Apache-2.0
import { AsyncLocalStorage } from "node:async_hooks";
import { connect, constants } from "node:http2";
import { type AddressInfo, createServer } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { createResponseCodec } from "@dm-env-rpc/tensor-codec/wire";
import {
  emptySettings,
  frameFlags,
  frameTypes,
  http2Frame,
  literalHeader,
} from "@dm-env-rpc/tests-processes";
import { expect, onTestFinished, test } from "vitest";
import { createBufferPool } from "../assembly/buffer-pool.ts";
import { defaultMaxMessageBytes } from "../limits/limits.ts";
import { openStream } from "../open/open-stream.ts";
import { defaultCodecs } from "../stream/call-codecs.ts";
import { errorOf } from "../testing/error-of.ts";
import { answered, answerOf, named, nameOf } from "../testing/messages.ts";
import { bytesOf, frame } from "../testing/raw-call.ts";
import { rawPeer, startOfCall } from "../testing/raw-peer.ts";
import { record } from "../testing/recorder.ts";
import { serving } from "../testing/serving.ts";
import { GrpcClientStream } from "./grpc-client-stream.ts";
import { BatchedStream, TurnBatch } from "./turn-batch.ts";

/** Streams of a batch, and how many deliveries they have received. */
interface Batched {
  readonly streams: readonly BatchedStream[];
  delivered: number;
}

function batched(batch: TurnBatch, count = 16): Batched {
  const counted: Batched = {
    streams: Array.from(
      { length: count },
      () =>
        new BatchedStream(batch, () => {
          counted.delivered += 1;
        }),
    ),
    delivered: 0,
  };
  return counted;
}

/** Gives each stream a chunk in each of some turns; returns how many of them waited, by turn. */
async function waitedIn(streams: readonly BatchedStream[], turns: number): Promise<number[]> {
  const found: number[] = [];
  for (let i = 0; i < turns; i++) {
    found.push(streams.filter((stream) => stream.waits(100)).length);
    await turn();
  }
  return found;
}

/** Puts a batch in the state in which chunks wait. */
async function switchOn(batch: TurnBatch): Promise<void> {
  expect((await waitedIn(batched(batch).streams, 4)).at(-1)).toBe(16);
}

test("chunks of many streams are delivered together at the end of the turn, those of few at once", async () => {
  const batch = new TurnBatch();
  const { streams } = batched(batch);
  expect((await waitedIn(streams, 4)).at(-1)).toBe(16);
  expect((await waitedIn(streams.slice(0, 11), 10)).at(-1)).toBe(0);
  expect((await waitedIn(streams.slice(0, 12), 10)).at(-1)).toBe(12);
});

test("chunks of one busy stream among many idle streams are delivered at once", async () => {
  const batch = new TurnBatch();
  const { streams } = batched(batch, 64);
  const [busy] = streams;
  await waitedIn(streams, 4);
  for (const other of streams.slice(0, 10)) {
    other.waits(100);
    await waitedIn(busy === undefined ? [] : [busy], 10);
  }
  expect(busy?.waits(100)).toBe(false);
});

test("every chunk that waits is delivered once", async () => {
  const streams = batched(new TurnBatch());
  const waited = await waitedIn(streams.streams, 20);
  expect(streams.delivered).toBe(waited.reduce((sum, count) => sum + count));
});

test("a large chunk is delivered at once", async () => {
  const batch = new TurnBatch();
  await switchOn(batch);
  expect(batched(batch).streams[0]?.waits(5_000)).toBe(false);
});

test("a second chunk of a stream is delivered at once, and its turn's end delivers nothing more", async () => {
  const batch = new TurnBatch();
  await switchOn(batch);
  const streams = batched(batch);
  expect(streams.streams[0]?.waits(100)).toBe(true);
  expect(streams.streams[0]?.waits(100)).toBe(false);
  await turn();
  expect(streams.delivered).toBe(0);
});

test("a receiver that throws does not keep the others from their messages", async () => {
  const batch = new TurnBatch();
  await switchOn(batch);
  const error = new Error("from a receiver");
  const before = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  const thrown = new Promise<unknown>((resolve) => process.once("uncaughtException", resolve));
  onTestFinished(() => {
    for (const listener of before) {
      process.on("uncaughtException", listener);
    }
  });
  const delivered: number[] = [];
  const streams = Array.from(
    { length: 8 },
    (_, i) =>
      new BatchedStream(batch, () => {
        delivered.push(i);
        if (i === 1) {
          throw error;
        }
      }),
  );
  for (const stream of streams) {
    expect(stream.waits(100)).toBe(true);
  }
  expect(await thrown).toBe(error);
  await turn();
  expect(delivered).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
});

test("each stream is delivered in the asynchronous context in which it was opened", async () => {
  const batch = new TurnBatch();
  await switchOn(batch);
  const context = new AsyncLocalStorage<number>();
  const seen: unknown[] = [];
  const streams = Array.from({ length: 8 }, (_, i) =>
    context.run(i, () => new BatchedStream(batch, () => seen.push(context.getStore()))),
  );
  for (const stream of streams) {
    stream.waits(100);
  }
  await turn();
  expect(seen).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
});

test("the messages of many connections arrive whole and in order", async () => {
  const connections = 48;
  const messages = 60;
  await using server = await serving();
  const clients = await Promise.all(
    Array.from({ length: connections }, async (_, connection) => {
      const client = await openStream(server.address);
      const served = await server.next();
      record(served, {
        onMessage: (request) => served.send(answered(nameOf(request))),
        onEnd: () => served.end(),
      });
      let sent = 0;
      const send = (): void => {
        if (sent < messages) {
          client.send(named(`${connection}/${sent}`));
        }
        sent += 1;
      };
      const seen = record(client, { onMessage: send });
      return { client, connection, seen, send };
    }),
  );
  for (const { send } of clients) {
    send();
  }
  for (const { client, connection, seen } of clients) {
    await seen.seen("message", messages);
    const names = Array.from({ length: messages }, (_, i) => `${connection}/${i}`);
    expect(seen.messages.map(answerOf)).toEqual(names);
    await client.close();
  }
});

const responseHeaders = Buffer.concat([
  literalHeader(":status", "200"),
  literalHeader("content-type", "application/grpc"),
]);

test.each([
  ["a reset", [http2Frame(frameTypes.rstStream, 0, 1, Buffer.from([0, 0, 0, 8]))], "reset"],
  [
    "an end without trailers",
    [http2Frame(frameTypes.data, frameFlags.endStream, 1, Buffer.alloc(0))],
    "received none",
  ],
])(
  "a response that arrives in one packet with %s is delivered before it",
  async (_, last, reason) => {
    const batch = new TurnBatch();
    await switchOn(batch);
    const codec = createResponseCodec();
    const message = answered("goodbye");
    const bytes = Buffer.alloc(codec.size(message));
    codec.write(message, bytes, 0);
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.write(emptySettings);
      socket.write(http2Frame(frameTypes.headers, frameFlags.endHeaders, 1, responseHeaders));
      let received = "";
      socket.on("data", (chunk: Buffer) => {
        const wasComplete = received.includes("hello");
        received += chunk.toString("latin1");
        if (!wasComplete && received.includes("hello")) {
          socket.write(Buffer.concat([http2Frame(frameTypes.data, 0, 1, frame(bytes)), ...last]));
        }
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    onTestFinished(() => {
      session.destroy();
      server.close();
    });
    session.on("error", () => {});
    const http2 = session.request({ ":method": "POST" });
    const { request, response } = defaultCodecs();
    const client = new GrpcClientStream({
      http2,
      side: "client",
      decoder: response,
      encoder: request,
      maxMessageBytes: defaultMaxMessageBytes,
      pool: createBufferPool(0),
      connectionFailure: () => undefined,
      address: "here",
      cancel: () => http2.close(constants.NGHTTP2_CANCEL),
      batch,
    });
    const seen = record(client);
    client.send(named("hello"));
    expect((await seen.closed)?.message).toContain(reason);
    expect(seen.messages.map(answerOf)).toEqual(["goodbye"]);
  },
);

test("a request that arrives in one packet with a reset is delivered before it", async () => {
  await using server = await serving();
  const message = frame(bytesOf(named("hello")));
  const data = http2Frame(frameTypes.data, 0, 1, message);
  const calls = await Promise.all(
    Array.from({ length: 16 }, async () => {
      const peer = rawPeer(server.listener.port);
      onTestFinished(() => peer[Symbol.asyncDispose]());
      peer.write(startOfCall);
      const stream = await server.next();
      return { peer, seen: record(stream, { onMessage: () => stream.send(answered("hello")) }) };
    }),
  );
  for (let round = 1; round <= 6; round++) {
    for (const { peer } of calls) {
      peer.write(data);
    }
    await Promise.all(calls.map(({ seen }) => seen.seen("message", round)));
  }
  for (const { peer } of calls) {
    peer.write(data, http2Frame(frameTypes.rstStream, 0, 1, Buffer.from([0, 0, 0, 8])));
  }
  for (const { seen } of calls) {
    expect(errorOf(await seen.closed)).toMatchObject({ code: "CANCELLED", origin: "client" });
    expect(seen.messages.length).toBe(7);
  }
});
