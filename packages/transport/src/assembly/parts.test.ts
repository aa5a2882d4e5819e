// SPDX-License-Identifier: Apache-2.0
import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import type { BufferPool } from "./buffer-pool.ts";
import { Parts } from "./parts.ts";

const kib = 1024;

/** A pool that allocates every buffer and counts the buffers in use. */
class CountingPool implements BufferPool {
  inUse = 0;

  take(length: number): Buffer {
    this.inUse += 1;
    return Buffer.alloc(length);
  }

  give(): void {
    this.inUse -= 1;
  }
}

test("parts move to a buffer piece by piece, and each part returns to the pool at once", () => {
  const pool = new CountingPool();
  const parts = new Parts(pool);
  const message = randomBytes(300 * kib);
  for (let at = 0; at < message.length; at += 7_000) {
    parts.add(message, at, Math.min(at + 7_000, message.length));
  }
  expect(pool.inUse).toBe(5); // After a first part of 16 KiB, parts of 64 KiB.
  const target = Buffer.alloc(10 + message.length);

  parts.moveTo(target, 10, 17 * kib);
  expect(pool.inUse).toBe(4);
  expect(target.subarray(10, 10 + 80 * kib)).toEqual(message.subarray(0, 80 * kib));
  expect(target.subarray(10 + 80 * kib).every((byte) => byte === 0)).toBe(true);

  parts.moveTo(target, 10, message.length);
  expect(pool.inUse).toBe(0);
  expect(target.subarray(10)).toEqual(message);
});
