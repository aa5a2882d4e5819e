// SPDX-License-Identifier: Apache-2.0
import { gzipSync } from "node:zlib";
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { afterEach, expect, test, vi } from "vitest";
import { inflate } from "./inflation.ts";

function inflated(gzip: Buffer): Promise<Buffer | DmEnvRpcError> {
  return new Promise((resolve) => inflate(gzip, resolve));
}

afterEach(() => {
  vi.restoreAllMocks();
});

test("a message is inflated into one buffer, so that no chunks have to be joined", async () => {
  const joins = vi.spyOn(Buffer, "concat");
  const message = Buffer.alloc(4_000_000, "abc");
  const result = await inflated(gzipSync(message));
  expect(joins).not.toHaveBeenCalled();
  expect(result).toEqual(message);
});

test("memory for a size that the data cannot inflate to is not allocated", async () => {
  const lie = gzipSync(Buffer.alloc(1_000));
  lie.writeUInt32LE(2 ** 31, lie.length - 4);
  const allocated = vi.spyOn(Buffer, "allocUnsafe");
  const result = await inflated(lie);
  const sizes = allocated.mock.calls.map(([size]) => size);
  expect(Math.max(0, ...sizes)).toBeLessThan(100_000);
  expect(String(result)).toContain("malformed gzip");
});
