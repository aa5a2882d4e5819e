// SPDX-License-Identifier: Apache-2.0
import type { ClientHttp2Session, OutgoingHttpHeaders } from "node:http2";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Health } from "@dm-env-rpc/protocol/health";
import { ServerReflection } from "@dm-env-rpc/protocol/reflection";
import { expect, test } from "vitest";
import { processPath } from "../../stream/process-path.ts";
import { frame, rawCall } from "../../testing/raw-call.ts";
import { serving } from "../../testing/serving.ts";

const grpc = { ":method": "POST", "content-type": "application/grpc", te: "trailers" };
const connect = { ":method": "POST", "content-type": "application/connect+proto" };
const text = { ":method": "POST", "content-type": "text/plain" };
const health = "/grpc.health.v1.Health/Check";

/**
 * Calls that are open at a time. Some of them wait for a later turn, so that their bodies arrive before they are refused.
 */
const atOnce = 32;
const maxStreamsPerConnection = 48;
const rounds = 8;

/** Sends requests, many at a time, and returns their answers. */
async function answersOf(
  session: ClientHttp2Session,
  headers: OutgoingHttpHeaders,
  body: Uint8Array = frame(Buffer.alloc(10)),
): Promise<string[]> {
  const answers: string[] = [];
  for (let round = 0; round < rounds; round++) {
    const asked = Array.from({ length: atOnce }, () => answerOf(session, headers, body));
    answers.push(...(await Promise.all(asked)));
  }
  return answers;
}

/** Sends a request whose body is complete at once. Resolves with the statuses of its response, or its error. */
function answerOf(
  session: ClientHttp2Session,
  headers: OutgoingHttpHeaders,
  body: Uint8Array,
): Promise<string> {
  return new Promise((resolve) => {
    const stream = session.request({ ":path": processPath, ...headers }, { endStream: false });
    stream.on("response", ({ ":status": status, "grpc-status": code }) =>
      resolve([status, code].filter((each) => each !== undefined).join("/")),
    );
    stream.on("error", (error) => resolve(error.message));
    stream.resume();
    stream.end(body);
  });
}

test.each([
  ["gRPC calls to an unknown path", { ...grpc, ":path": "/nowhere" }, "200/12"],
  ["other requests to an unknown path", { ...text, ":path": "/nowhere" }, "404"],
  ["calls with an unknown compression", { ...grpc, "grpc-encoding": "br" }, "200/12"],
  ["calls of Process with an unknown content type", text, "415"],
  ["calls of another method with an unknown content type", { ...text, ":path": health }, "415"],
  [
    "calls of a page that is not allowed",
    { ...connect, origin: "https://evil.example.org" },
    "403",
  ],
  ["preflight requests", { ":method": "OPTIONS", "content-type": "text/plain" }, "204"],
  ["requests of a file", { ":method": "GET", ":path": "/page" }, "200"],
])(
  "%s do not use up the streams of a connection with bodies that are not read",
  async (_what, headers, expected) => {
    await using server = await serving({
      maxStreamsPerConnection,
      routes: (router) => router.service(Health, { check: () => ({}) }),
      files: new Map([["/page", { headers: {}, body: Buffer.from("page") }]]),
    });
    await using call = rawCall(server.address);
    const answers = await answersOf(call.session, headers);
    expect(answers).toEqual(Array(rounds * atOnce).fill(expected));
  },
);

test.each([
  ["gRPC", grpc, "200/8"],
  ["Connect", connect, "429"],
])(
  "calls of %s above maxRequestsPerSecond do not use up the streams of a connection",
  async (_what, headers, expected) => {
    await using server = await serving({ maxStreamsPerConnection, maxRequestsPerSecond: 1 });
    await using call = rawCall(server.address);
    await server.next();
    const answers = new Set(await answersOf(call.session, headers));
    answers.delete("200"); // One that was within the rate.
    expect([...answers]).toEqual([expected]);
  },
);

test.each([
  ["too large", frame(Buffer.alloc(100_000))],
  ["more than one", Buffer.alloc(100_000, frame(Buffer.alloc(95)))],
])("calls whose message is %s do not use up the streams of a connection", async (_what, body) => {
  await using server = await serving({
    maxStreamsPerConnection,
    maxConnectRequestBytes: 1_000,
    routes: (router) => router.service(Health, { check: () => ({}) }),
  });
  await using call = rawCall(server.address);
  const headers = { ...grpc, ":path": health };
  const answers = new Set(await answersOf(call.session, headers, body));
  expect([...answers]).toEqual(["200"]);
});

// It is tried again, because the stream closes a second after its response.
test("a call that ends before it has read its request counts no later bytes of it", {
  retry: 3,
}, async () => {
  await using server = await serving({
    routes: (router) => router.service(Health, { check: () => ({}) }),
    byteStreams: new Map([[health, () => new Promise(() => {})]]),
  });
  await using call = rawCall(server.address, {
    ":path": health,
    "grpc-timeout": "50m",
  });
  const message = frame(Buffer.alloc(50_000));
  call.http2.write(message.subarray(0, 10_000));
  await new Promise((resolve) => call.http2.once("trailers", resolve));
  await new Promise((resolve) => call.http2.write(message.subarray(10_000, 40_000), resolve));
  await new Promise((resolve) => call.session.ping(resolve));
  await expect.poll(() => server.listener.bufferedBytes).toBeLessThan(5_000);
  expect(call.http2.closed).toBe(false);
});

test("a call that answers before it reads its requests receives them all", async () => {
  let read = () => {};
  const mayRead = new Promise<void>((resolve) => {
    read = resolve;
  });
  await using server = await serving({
    routes: (router) =>
      router.service(ServerReflection, {
        async *serverReflectionInfo(requests) {
          yield {};
          await mayRead;
          for await (const { host } of requests) {
            yield { validHost: host };
          }
        },
      }),
  });
  const client = createClient(
    ServerReflection,
    createGrpcTransport({ baseUrl: `http://${server.address}` }),
  );
  async function* requests() {
    yield { host: "a" };
    yield { host: "b" };
  }
  const hosts: string[] = [];
  for await (const { validHost } of client.serverReflectionInfo(requests())) {
    hosts.push(validHost);
    if (hosts.length === 1) {
      setTimeout(() => read(), 100);
    }
  }
  expect(hosts).toEqual(["", "a", "b"]);
});
