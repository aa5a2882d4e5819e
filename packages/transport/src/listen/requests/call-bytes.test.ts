// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import {
  connect,
  constants,
  createServer,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { expect, test } from "vitest";
import { BufferedBytes, connectionBytes } from "../../limits/buffered-bytes.ts";
import { CallBytes } from "./call-bytes.ts";

test("a call above a limit whose peer has reset it without an error is dropped", async () => {
  const buffered = new BufferedBytes({
    maxBufferedBytes: 1_000_000,
    maxBufferedBytesPerConnection: 1_000_000,
    stalledMessageMs: 0,
  });
  await using server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  using _session = { [Symbol.dispose]: () => session.destroy() };
  const request = session.request({ ":method": "POST" });
  request.on("error", () => {});
  const [stream, headers] = (await once(server, "stream")) as [
    ServerHttp2Stream,
    IncomingHttpHeaders,
  ];
  stream.on("error", () => {});
  stream.on("data", () => stream.pause());
  const bytes = new CallBytes(buffered, connectionBytes("peer"), stream, headers, []);
  request.write(Buffer.alloc(10_000));
  await expect.poll(() => stream.isPaused()).toBe(true);
  request.write(Buffer.alloc(10_000));
  await expect.poll(() => bytes.unreportedBytes).toBe(10_000);
  request.close(constants.NGHTTP2_NO_ERROR);
  await expect.poll(() => stream.closed).toBe(true);
  expect(stream.destroyed).toBe(false);
  const error = new DmEnvRpcError("RESOURCE_EXHAUSTED", "too much");
  bytes.fail(error);
  bytes.fail(error);
  expect(stream.destroyed).toBe(true);
  buffered.stop();
});
