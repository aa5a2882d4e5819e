// SPDX-License-Identifier: Apache-2.0
// Calls of Process by Connect and gRPC-Web in protobuf over HTTP/2. message-stream.test.ts has what all carriers share.
import type { OutgoingHttpHeaders } from "node:http2";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { openConnectStream } from "../open/open-connect-stream.ts";
import { errorOf } from "../testing/error-of.ts";
import { answerOf, named, nameOf } from "../testing/messages.ts";
import { bytesOf, frame, type RawCall, rawCall } from "../testing/raw-call.ts";
import { record } from "../testing/recorder.ts";
import { echo, serving } from "../testing/serving.ts";

const connect = { "content-type": "application/connect+proto" };
const origin = "https://play.example.org";

/** Reads the body of a response until its end. */
async function bodyOf({ http2 }: RawCall): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of http2) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function callBy(address: string, headers: OutgoingHttpHeaders): RawCall {
  return rawCall(address, { ...connect, ...headers }, { read: false });
}

describe.each(["connect", "grpc-web"] as const)("a stream over %s", (protocol) => {
  test("has the limits of a stream over gRPC", async () => {
    await using server = await serving({ maxConnectRequestBytes: 1_000, maxMessageBytes: 20_000 });
    await using stream = await openConnectStream(server.address, { protocol });
    const client = record(stream);
    echo(await server.next());
    const name = "n".repeat(10_000);
    stream.send(named(name));
    await client.seen("message");
    expect(client.messages.map(answerOf)).toEqual([name]);
    stream.send(named("n".repeat(20_000)));
    const error = errorOf(await client.closed);
    expect(error.code).toBe("RESOURCE_EXHAUSTED");
    expect(error.message).toContain("at most 20000 bytes");
  });
});

describe("a stream over connect", () => {
  test("ends at its deadline, and its last message says why", async () => {
    await using server = await serving();
    await using call = callBy(server.address, { "connect-timeout-ms": "50" });
    const served = record(await server.next());
    expect(await bodyOf(call)).toContain('{"error":{"code":"deadline_exceeded"');
    expect(errorOf(await served.closed).code).toBe("DEADLINE_EXCEEDED");
  });

  test.each(["99999999999", "1e3", "soon"])(
    "has no deadline if its timeout is %s",
    async (timeout) => {
      await using server = await serving();
      await using call = callBy(server.address, { "connect-timeout-ms": timeout });
      echo(await server.next());
      call.http2.end();
      expect(await bodyOf(call)).toBe("\x02\x00\x00\x00\x02{}");
    },
  );

  test("inflates requests", async () => {
    await using server = await serving();
    await using call = callBy(server.address, { "connect-content-encoding": "gzip" });
    const served = echo(await server.next());
    call.http2.end(frame(gzipSync(bytesOf(named("small"))), 1));
    await bodyOf(call);
    expect(served.messages.map(nameOf)).toEqual(["small"]);
  });

  test("is read by the pages of allowed origins only", async () => {
    await using server = await serving({ allowedOrigins: [origin] });
    await using allowed = callBy(server.address, { origin });
    echo(await server.next());
    expect((await allowed.response)["access-control-allow-origin"]).toBe(origin);
    await using refused = callBy(server.address, { origin: "https://evil.example.org" });
    expect((await refused.response)[":status"]).toBe(403);
    expect(server.listener.streams).toBe(1);
  });
});
