// SPDX-License-Identifier: Apache-2.0
import { gzipSync } from "node:zlib";
import { fromBinary, toJsonString } from "@bufbuild/protobuf";
import { EnvironmentRequestSchema } from "@dm-env-rpc/protocol";
import { expect, test } from "vitest";
import { errorOf } from "../testing/error-of.ts";
import { answered, stepRequest, stepResponse } from "../testing/messages.ts";
import { bytesOf, frame, type RawCall, rawCall } from "../testing/raw-call.ts";
import { record } from "../testing/recorder.ts";
import { serving } from "../testing/serving.ts";

function callInJson(address: string, headers: Record<string, string> = {}): RawCall {
  return rawCall(
    address,
    { "content-type": "application/connect+json", ...headers },
    { read: false },
  );
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** Returns the messages of a response, each with its flags. */
async function read(call: RawCall): Promise<readonly (readonly [flags: number, value: unknown])[]> {
  const chunks: Buffer[] = [];
  for await (const chunk of call.http2) {
    chunks.push(chunk as Buffer);
  }
  const body = Buffer.concat(chunks);
  const messages: [number, unknown][] = [];
  for (let at = 0; at < body.length; ) {
    const end = at + 5 + body.readUInt32BE(at + 1);
    messages.push([body.readUInt8(at), JSON.parse(body.toString("utf8", at + 5, end))]);
    at = end;
  }
  return messages;
}

test("a step in JSON has the tensors of the same step in protobuf", async () => {
  await using server = await serving();
  await using call = callInJson(server.address);
  const stream = await server.next();
  const served = record(stream);
  const step = stepRequest(3);
  const generated = fromBinary(EnvironmentRequestSchema, bytesOf(step));
  call.http2.end(frame(Buffer.from(toJsonString(EnvironmentRequestSchema, generated))));
  await served.seen("end");
  expect(served.messages).toEqual([step]);
  stream.send(stepResponse(3));
  stream.end();
  const array = Buffer.alloc(3, 7).toString("base64");
  expect(await read(call)).toEqual([
    [0, { step: { state: "RUNNING", observations: { 1: { shape: [3], uint8s: { array } } } } }],
    [2, {}],
  ]);
});

test("a message that is not valid JSON is malformed, and later messages are answered", async () => {
  await using server = await serving();
  await using call = callInJson(server.address);
  const served = record(await server.next());
  call.http2.write(frame(Buffer.from("{")));
  call.http2.write(frame(json({ step: { actions: 3 } })));
  call.http2.write(frame(Buffer.from([0x22, 0xff, 0x22])));
  call.http2.write(frame(json({ fromTheFuture: 1, joinWorld: { worldName: "here" } })));
  call.http2.end();
  await served.seen("end");
  expect(served.messages.map((message) => message.case)).toEqual([
    "malformed",
    "malformed",
    "malformed",
    "joinWorld",
  ]);
  const [first] = served.messages;
  const error = errorOf(first?.case === "malformed" ? first.value : undefined);
  expect(error.code).toBe("INVALID_ARGUMENT");
  expect(error.message).toContain("expected an EnvironmentRequest in protobuf's JSON format");
});

test("the error of a malformed message does not repeat a long value", async () => {
  await using server = await serving();
  await using call = callInJson(server.address);
  const served = record(await server.next());
  call.http2.end(frame(json({ step: { requestedObservations: ["x".repeat(100_000)] } })));
  await served.seen("end");
  const [first] = served.messages;
  const { message } = errorOf(first?.case === "malformed" ? first.value : undefined);
  expect(message).toContain("xxx");
  expect(message.length).toBeLessThan(300);
});

test("a malformed message that is inflated is malformed, too", async () => {
  await using server = await serving();
  await using call = callInJson(server.address, { "connect-content-encoding": "gzip" });
  const served = record(await server.next());
  call.http2.write(frame(gzipSync(Buffer.from("{")), 1));
  call.http2.end(frame(gzipSync(json({ joinWorld: { worldName: "here" } })), 1));
  await served.seen("end");
  expect(served.messages.map((message) => message.case)).toEqual(["malformed", "joinWorld"]);
});

test.each([
  ["", {}, (size: number) => frame(Buffer.alloc(size, " "))],
  [
    " after inflation",
    { "connect-content-encoding": "gzip" },
    (size: number) => frame(gzipSync(Buffer.alloc(size, " ")), 1),
  ],
])(
  "a message above maxConnectRequestBytes%s is refused by its name",
  async (_when, headers, message) => {
    await using server = await serving({ maxConnectRequestBytes: 1_000 });
    await using call = callInJson(server.address, headers);
    const served = record(await server.next());
    call.http2.end(message(1_001));
    await served.seen("end");
    const [first] = served.messages;
    const error = errorOf(first?.case === "malformed" ? first.value : undefined);
    expect(error.code).toBe("RESOURCE_EXHAUSTED");
    expect(error.message).toContain("expected at most 1000 bytes");
    expect(error.message).toContain("(limit: maxConnectRequestBytes)");
  },
);

test("an error is sent without its details if their types are unknown", async () => {
  await using server = await serving();
  await using call = callInJson(server.address);
  const stream = await server.next();
  record(stream);
  const detail = {
    $typeName: "google.protobuf.Any" as const,
    typeUrl: "type.googleapis.com/no.Such",
    value: new Uint8Array(3),
  };
  stream.send({
    case: "error",
    value: { $typeName: "google.rpc.Status", code: 3, message: "no", details: [detail] },
  });
  stream.send(answered("here"));
  stream.end();
  call.http2.end();
  expect(await read(call)).toEqual([
    [0, { error: { code: 3, message: "no" } }],
    [0, { createWorld: { worldName: "here" } }],
    [2, {}],
  ]);
});

test("thousands of short messages of one chunk leave turns to other streams", async () => {
  await using server = await serving();
  await using call = callInJson(server.address);
  const stream = await server.next();
  const perTurn: number[] = [];
  let turn = 0;
  let isOver = false;
  const count = (): void => {
    perTurn.push(turn);
    turn = 0;
    if (!isOver) {
      setImmediate(count);
    }
  };
  setImmediate(count);
  const served = record(stream, { onMessage: () => (turn += 1) });
  call.http2.end(Buffer.concat(Array.from({ length: 4_000 }, () => frame(Buffer.from("{}")))));
  await served.seen("end");
  isOver = true;
  expect(served.messages).toHaveLength(4_000);
  expect(Math.max(...perTurn)).toBeLessThanOrEqual(64);
});
