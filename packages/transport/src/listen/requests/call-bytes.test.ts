// SPDX-License-Identifier: Apache-2.0
import { constants } from "node:http2";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { expect, test } from "vitest";
import { BufferedBytes, connectionBytes } from "../../limits/buffered-bytes.ts";
import { plainCall } from "../../testing/plain-call.ts";
import { CallBytes } from "./call-bytes.ts";

test("a call above a limit whose peer has reset it without an error is dropped", async () => {
  const buffered = new BufferedBytes({
    maxBufferedBytes: 1_000_000,
    maxBufferedBytesPerConnection: 1_000_000,
    stalledMessageMs: 0,
  });
  const { client, stream, headers } = await plainCall();
  stream.on("data", () => stream.pause());
  const bytes = new CallBytes(buffered, connectionBytes("peer"), stream, headers, []);
  client.write(Buffer.alloc(10_000));
  await expect.poll(() => stream.isPaused()).toBe(true);
  client.write(Buffer.alloc(10_000));
  await expect.poll(() => bytes.unreportedBytes).toBe(10_000);
  client.close(constants.NGHTTP2_NO_ERROR);
  await expect.poll(() => stream.closed).toBe(true);
  expect(stream.destroyed).toBe(false);
  const error = new DmEnvRpcError("RESOURCE_EXHAUSTED", "too much");
  bytes.fail(error);
  bytes.fail(error);
  expect(stream.destroyed).toBe(true);
  buffered.stop();
});
