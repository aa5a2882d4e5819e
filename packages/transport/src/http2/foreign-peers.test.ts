// SPDX-License-Identifier: Apache-2.0

import { once } from "node:events";
import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import {
  compressionGzip,
  connectNodeAdapter,
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import {
  Environment,
  type EnvironmentRequest,
  EnvironmentRequestSchema,
  type EnvironmentResponse,
  EnvironmentResponseSchema,
} from "@dm-env-rpc/protocol";
import { Health, HealthCheckResponseSchema } from "@dm-env-rpc/protocol/health";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { describe, expect, test } from "vitest";
import { openConnectStream } from "../open/open-connect-stream.ts";
import { openStream } from "../open/open-stream.ts";
import { errorOf } from "../testing/error-of.ts";
import { answerOf, named } from "../testing/messages.ts";
import { rawCall } from "../testing/raw-call.ts";
import { record } from "../testing/recorder.ts";
import { echo, serving } from "../testing/serving.ts";

const transports: readonly (readonly [string, (baseUrl: string) => Transport])[] = [
  ["gRPC", (baseUrl) => createGrpcTransport({ baseUrl })],
  [
    "gRPC with gzip",
    (baseUrl) =>
      createGrpcTransport({ baseUrl, sendCompression: compressionGzip, compressMinBytes: 0 }),
  ],
  ["Connect", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "2" })],
  [
    "Connect in JSON",
    (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "2", useBinaryFormat: false }),
  ],
  ["gRPC-Web", (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "2" })],
  ["gRPC in JSON", (baseUrl) => createGrpcTransport({ baseUrl, useBinaryFormat: false })],
  [
    "gRPC in JSON with gzip",
    (baseUrl) =>
      createGrpcTransport({
        baseUrl,
        useBinaryFormat: false,
        sendCompression: compressionGzip,
        compressMinBytes: 0,
      }),
  ],
  [
    "gRPC-Web in JSON",
    (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "2", useBinaryFormat: false }),
  ],
];

/** Requests that are sent one by one, each after the response to the previous request. */
function requestsInTurn(): {
  readonly requests: AsyncIterable<EnvironmentRequest>;
  send(worldName: string): void;
  end(): void;
} {
  const queue: (EnvironmentRequest | undefined)[] = [];
  let wake = (): void => {};
  const put = (request: EnvironmentRequest | undefined): void => {
    queue.push(request);
    wake();
  };
  return {
    requests: {
      async *[Symbol.asyncIterator]() {
        for (;;) {
          if (queue.length === 0) {
            await new Promise<void>((resolve) => {
              wake = resolve;
            });
          }
          const request = queue.shift();
          if (request === undefined) {
            return;
          }
          yield request;
        }
      },
    },
    send: (worldName) =>
      put(
        create(EnvironmentRequestSchema, { payload: { case: "joinWorld", value: { worldName } } }),
      ),
    end: () => put(undefined),
  };
}

function worldNameOf(response: EnvironmentResponse | undefined): string {
  return response?.payload.case === "createWorld" ? response.payload.value.worldName : "";
}

describe.each(transports)("a client of connect-node over %s", (_name, transportTo) => {
  test("receives a response to each request in turn", async () => {
    await using server = await serving();
    const client = createClient(Environment, transportTo(server.listener.url));
    const { requests, send, end } = requestsInTurn();
    const names: string[] = [];
    send("world 0");
    const accepted = server.next().then((stream) => echo(stream));
    for await (const response of client.process(requests)) {
      names.push(worldNameOf(response));
      if (names.length < 50) {
        send(`world ${names.length}`);
      } else {
        end();
      }
    }
    expect(names).toEqual(Array.from({ length: 50 }, (_, i) => `world ${i}`));
    expect(await (await accepted).closed).toBeUndefined();
    expect(server.errors).toEqual([]);
  });

  test("receives an error with its code", async () => {
    await using server = await serving();
    const client = createClient(Environment, transportTo(server.listener.url));
    const { requests, send } = requestsInTurn();
    send("world");
    const responses = client.process(requests)[Symbol.asyncIterator]();
    const first = responses.next();
    const stream = await server.next();
    const served = record(stream, {
      onMessage: () => stream.abort(new ConnectError("not you", Code.PermissionDenied)),
    });
    const error = ConnectError.from(await first.catch((thrown: unknown) => thrown));
    expect(error.code).toBe(Code.PermissionDenied);
    expect(error.rawMessage).toBe("not you");
    expect(served.messages).toHaveLength(1);
    await served.closed;
  });

  test("behaviour 8: disconnects at once when it cancels, even while paused", async () => {
    await using server = await serving();
    for (const paused of [false, true]) {
      const client = createClient(Environment, transportTo(server.listener.url));
      const controller = new AbortController();
      const { requests, send } = requestsInTurn();
      send("world");
      send("another");
      const options = { signal: controller.signal };
      const next = client.process(requests, options)[Symbol.asyncIterator]().next();
      const stream = await server.next();
      const served = record(stream, { onMessage: () => paused && stream.pause() });
      await served.seen("message");
      controller.abort();
      await expect(next).rejects.toThrow();
      expect(await served.closed).toBeInstanceOf(DmEnvRpcError);
    }
  });

  test("receives the end of the server's side as the end of the call", async () => {
    await using server = await serving();
    const client = createClient(Environment, transportTo(server.listener.url));
    const { requests, send } = requestsInTurn();
    send("world");
    const responses = client.process(requests)[Symbol.asyncIterator]();
    const first = responses.next();
    const stream = await server.next();
    const served = record(stream, { onMessage: () => stream.end() });
    expect((await first).done).toBe(true);
    expect(await served.closed).toBeUndefined();
  });

  test("reaches the other services of the listener", async () => {
    await using server = await serving({
      routes: (router) => {
        router.rpc(Health.method.check, () => create(HealthCheckResponseSchema, { status: 1 }));
      },
    });
    const client = createClient(Health, transportTo(server.listener.url));
    expect((await client.check({})).status).toBe(1);
  });

  test("may send requests of at most maxConnectRequestBytes to other services", async () => {
    await using server = await serving({
      maxConnectRequestBytes: 1_000,
      routes: (router) => {
        router.rpc(Health.method.check, () => create(HealthCheckResponseSchema, { status: 1 }));
      },
    });
    const client = createClient(Health, transportTo(server.listener.url));
    expect((await client.check({ service: "x".repeat(900) })).status).toBe(1);
    await expect(client.check({ service: "x".repeat(1_000) })).rejects.toMatchObject({
      code: Code.ResourceExhausted,
    });
  });
});

test("when a server ends a Connect call, the call's stream closes even if the client keeps sending", async () => {
  await using server = await serving();
  await using call = rawCall(server.address, { "content-type": "application/connect+proto" });
  const stream = await server.next();
  const served = record(stream);
  stream.end();
  await call.trailers;
  expect(call.http2.closed).toBe(true);
  expect(await served.closed).toBeUndefined();
});

describe("a server of connect-node", () => {
  async function connectServer(): Promise<AsyncDisposable & { readonly address: string }> {
    const server = createServer(
      connectNodeAdapter({
        routes: (router) => {
          router.service(Environment, {
            async *process(requests) {
              for await (const { payload } of requests) {
                const worldName = payload.case === "joinWorld" ? payload.value.worldName : "?";
                if (worldName === "the end") {
                  return;
                }
                if (worldName === "nowhere") {
                  throw new ConnectError("there is no such world", Code.NotFound);
                }
                yield create(EnvironmentResponseSchema, {
                  payload: { case: "createWorld", value: { worldName } },
                });
              }
            },
          });
        },
      }),
    );
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return {
      address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
      async [Symbol.asyncDispose]() {
        await new Promise((resolve) => server.close(resolve));
      },
    };
  }

  test.each([
    ["gRPC", openStream],
    ["Connect", openConnectStream],
    ["gRPC-Web", (address: string) => openConnectStream(address, { protocol: "grpc-web" })],
  ] as const)("answers our client over %s", async (_name, open) => {
    await using server = await connectServer();
    await using stream = await open(server.address);
    const client = record(stream);
    for (let i = 0; i < 20; i++) {
      stream.send(named(`world ${i}`));
    }
    stream.end();
    expect(await client.closed).toBeUndefined();
    expect(client.messages.map(answerOf)).toEqual(
      Array.from({ length: 20 }, (_, i) => `world ${i}`),
    );

    await using ended = await open(server.address);
    const over = record(ended);
    ended.send(named("the end"));
    expect(await over.closed).toBeUndefined();
    expect(over.events).toEqual(["end", "close"]);

    await using lost = await open(server.address);
    const failed = record(lost);
    lost.send(named("here"));
    lost.send(named("nowhere"));
    const error = errorOf(await failed.closed);
    expect(error.code).toBe("NOT_FOUND");
    expect(error.message).toBe("there is no such world");
    expect(failed.messages.map(answerOf)).toEqual(["here"]);
  });
});
