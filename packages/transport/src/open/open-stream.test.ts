// SPDX-License-Identifier: Apache-2.0
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type ClientHttp2Stream, createServer, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import {
  emptySettings,
  framed,
  frameFlags,
  frameTypes,
  http2Frame,
  literalHeader,
} from "@dm-env-rpc/tests-processes";
import { describe, expect, onTestFinished, test } from "vitest";
import { answerOf, named, stepRequest, stepResponse } from "../testing/messages.ts";
import { record } from "../testing/recorder.ts";
import { echo, serving } from "../testing/serving.ts";
import { openStream } from "./open-stream.ts";

const responseHeaders = Buffer.concat([
  literalHeader(":status", "200"),
  literalHeader("content-type", "application/grpc"),
]);

/** Trailers with the status RESOURCE_EXHAUSTED. */
const trailers = http2Frame(
  frameTypes.headers,
  frameFlags.endHeaders | frameFlags.endStream,
  1,
  literalHeader("grpc-status", "8"),
);

const reset = http2Frame(frameTypes.rstStream, 0, 1, Buffer.alloc(4));

test("requests are answered in order, then a half-close ends the call without an error", async () => {
  await using server = await serving();
  await using stream = await openStream(server.address);
  const client = record(stream);
  const accepted = await server.next();
  const served = echo(accepted);
  for (let i = 0; i < 1_000; i++) {
    stream.send(named(`world ${i}`));
  }
  stream.end();
  expect(await client.closed).toBeUndefined();
  expect(client.messages.map(answerOf)).toEqual(
    Array.from({ length: 1_000 }, (_, i) => `world ${i}`),
  );
  expect(client.events.slice(-2)).toEqual(["end", "close"]);
  expect(await served.closed).toBeUndefined();
  expect(served.events.slice(-2)).toEqual(["end", "close"]);
});

test("messages sent in one turn share one write, even from different promise callbacks", async () => {
  const chunks: number[] = [];
  const server = createServer();
  server.on("stream", (stream: ServerHttp2Stream) => {
    stream.on("error", () => {});
    stream.on("data", (chunk: Buffer) => chunks.push(chunk.length));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const stream = await openStream(`127.0.0.1:${port}`);
  record(stream);
  for (let turn = 1; turn <= 5; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    await Promise.all(
      Array.from({ length: 64 }, async () => {
        await null;
        stream.send(stepRequest(10));
      }),
    );
    while (chunks.length < turn) {
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  expect(chunks).toHaveLength(5);
  expect(new Set(chunks).size).toBe(1);
  await stream.close();
  await new Promise((resolve) => server.close(resolve));
});

test.runIf(process.platform === "linux").each([
  ["http://", "HTTP/2"],
  ["ws://", "a WebSocket"],
])("the kernel probes a server that is silent over %s (%s)", async (scheme) => {
  await using server = await serving({ pingIntervalMs: 0 });
  await using stream = await openStream(`${scheme}${server.address}`);
  record(stream);
  const accepted = await server.next();
  record(accepted);
  const [from, to] = [accepted.peer.address, server.address].map((address) => {
    const port = Number(address.split(":")[1]);
    return `0100007F:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  });
  // The sixth column is the timer of a socket: 02 is keep-alive, once all sent data is acknowledged.
  await expect
    .poll(() => {
      const lines = readFileSync("/proc/net/tcp", "utf8").split("\n");
      const fields = lines.map((line) => line.trim().split(/\s+/));
      return fields.find(([, a, b]) => a === from && b === to)?.[5]?.slice(0, 2);
    })
    .toBe("02");
});

/** A server that answers the first 32 KiB of its first request with the given frames, and reads the rest unanswered. */
async function hasty(answer: readonly Buffer[]): Promise<
  AsyncDisposable & {
    readonly address: string;
    /** The connection of the client. */
    readonly connection: () => Socket | undefined;
  }
> {
  let connection: Socket | undefined;
  const server = createTcpServer((socket) => {
    connection = socket;
    socket.on("error", () => {});
    socket.write(emptySettings);
    let receivedBytes = 0;
    socket.on("data", (chunk: Buffer) => {
      const wasBelow = receivedBytes < 32_768;
      receivedBytes += chunk.length;
      if (wasBelow && receivedBytes >= 32_768) {
        const headers = http2Frame(frameTypes.headers, frameFlags.endHeaders, 1, responseHeaders);
        socket.write(Buffer.concat([headers, ...answer]));
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    connection: () => connection,
    async [Symbol.asyncDispose]() {
      connection?.destroy();
      server.close();
    },
  };
}

test.each([
  ["with trailers", [trailers]],
  ["without trailers", []],
])(
  "a stream that the server ends %s and resets at once, before it reads a large message, frees its connection",
  async (_, ends) => {
    await using server = await hasty([...ends, reset]);
    const stream = await openStream(server.address);
    const client = record(stream);
    stream.send(stepRequest(16 * 1024 * 1024));
    const expected = ends.length > 0 ? "RESOURCE_EXHAUSTED" : "UNAVAILABLE";
    expect(await client.closed).toMatchObject({ code: expected });
    await expect.poll(() => server.connection()?.closed, { timeout: 10_000 }).toBe(true);
    await stream.close();
  },
);

describe("a paused stream that the server has ended and reset frees its connection", () => {
  /** Opens a stream that sends a large message, pauses at the first of ten responses, and has been reset. */
  async function resetWhilePaused(address: string) {
    let http2: ClientHttp2Stream | undefined;
    const onCreated = (message: unknown): void => {
      http2 = (message as { stream: ClientHttp2Stream }).stream;
    };
    subscribe("http2.client.stream.created", onCreated);
    onTestFinished(() => void unsubscribe("http2.client.stream.created", onCreated));
    const stream = await openStream(address);
    const client = record(stream, { onMessage: () => stream.pause() });
    stream.send(stepRequest(16 * 1024 * 1024));
    await client.seen("message");
    await expect.poll(() => http2?.closed).toBe(true);
    return { stream, client };
  }

  const data = http2Frame(frameTypes.data, 0, 1, framed(stepResponse(15_000)));
  const answer = [...Array<Buffer>(10).fill(data), trailers, reset];

  test("once it has read all messages", async () => {
    await using server = await hasty(answer);
    const { stream, client } = await resetWhilePaused(server.address);
    for (let count = 2; count <= 10; count++) {
      stream.resume();
      await client.seen("message", count);
    }
    stream.resume();
    expect(await client.closed).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    await expect.poll(() => server.connection()?.closed, { timeout: 10_000 }).toBe(true);
    await stream.close();
  });

  test("once it is closed without reading on", async () => {
    await using server = await hasty(answer);
    const { stream } = await resetWhilePaused(server.address);
    await stream.close();
    await expect.poll(() => server.connection()?.closed, { timeout: 10_000 }).toBe(true);
  });
});
