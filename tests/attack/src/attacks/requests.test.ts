// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";
import { fromBinary } from "@bufbuild/protobuf";
import { EnvironmentRequestSchema } from "@dm-env-rpc/protocol";
import { HealthCheckRequestSchema } from "@dm-env-rpc/protocol/health";
import { ServerReflectionRequestSchema } from "@dm-env-rpc/protocol/reflection";
import { describe, expect, it } from "vitest";
import { Seen, type Target } from "./attack.ts";
import { requests } from "./requests.ts";

const window = 2 ** 30;

/** Runs an attack until a server has received the first gRPC message of one of its calls. */
async function firstMessage(
  name: string,
): Promise<{ readonly flags: number; readonly body: Buffer }> {
  const server = createServer({ settings: { initialWindowSize: window } });
  let resolve: (message: Buffer) => void = () => {};
  const message = new Promise<Buffer>((received) => {
    resolve = received;
  });
  server.on("session", (session) => session.setLocalWindowSize(window));
  server.on("stream", (stream) => {
    let received = Buffer.alloc(0);
    stream.on("error", () => {});
    stream.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (received.length >= 5 && received.length >= 5 + received.readUInt32BE(1)) {
        resolve(received.subarray(0, 5 + received.readUInt32BE(1)));
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  let isOver = false;
  const over = message.then(() => {
    isOver = true;
  });
  const target: Target = {
    host: "127.0.0.1",
    from: "127.0.0.1",
    port: (server.address() as AddressInfo).port,
    seen: new Seen(),
    over,
    isOver: () => isOver,
    answered() {},
  };
  await requests[name]?.()(target);
  const framed = await message;
  server.close();
  return { flags: framed[0] ?? 0, body: framed.subarray(5) };
}

describe("an attack sends what its name says:", () => {
  it("health checks of long names", async () => {
    const { body } = await firstMessage("health checks of long names");
    expect(fromBinary(HealthCheckRequestSchema, body).service).toHaveLength(10_000);
  });

  it("reflection of symbols of 60,000 dots", async () => {
    const { body } = await firstMessage("reflection of symbols of 60,000 dots");
    expect(fromBinary(ServerReflectionRequestSchema, body).messageRequest).toEqual({
      case: "fileContainingSymbol",
      value: ".".repeat(60_000),
    });
  });

  it.each([
    ["messages of 1 MiB in gzip, 1 KB each", 2 ** 20, 1],
    ["messages in gzip, 16 KB each", 30_400, 16],
  ])("%s", async (name, length, kilobytes) => {
    const { flags, body } = await firstMessage(name);
    expect(flags).toBe(1);
    expect(Math.round(body.length / 1024)).toBe(kilobytes);
    const { payload } = fromBinary(EnvironmentRequestSchema, gunzipSync(body));
    expect(payload.case === "joinWorld" && payload.value.worldName).toHaveLength(length);
  });
});
