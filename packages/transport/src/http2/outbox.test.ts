// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, test } from "vitest";
import { createBufferPool } from "../assembly/buffer-pool.ts";
import { Deframer } from "./framing.ts";
import { type Encoder, Outbox } from "./outbox.ts";

const bytesCodec: Encoder<Uint8Array> = {
  size: (message) => message.length,
  write(message, target, offset) {
    target.set(message, offset);
    return offset + message.length;
  },
};

function outboxOfBytes(): Outbox<Uint8Array> {
  return new Outbox(bytesCodec, createBufferPool(1024 * 1024));
}

test("after a few turns, the small messages of a turn are in one or two pieces", () => {
  const outbox = outboxOfBytes();
  for (let turn = 0; turn < 20; turn++) {
    for (let i = 0; i < 20; i++) {
      outbox.add(new Uint8Array(100).fill(i));
    }
    expect(outbox.bytes).toBe(20 * 105);
    const pieces = outbox.take();
    expect(pieces.reduce((sum, { bytes }) => sum + bytes.length, 0)).toBe(20 * 105);
    expect(pieces.length).toBeLessThanOrEqual(turn === 0 ? 3 : 2);
    expect(outbox.bytes).toBe(0);
    expect(outbox.take()).toEqual([]);
  }
});

test("the small messages of a turn are one piece if they fit in a slab", () => {
  const outbox = outboxOfBytes();
  outbox.add(Uint8Array.of(1, 2));
  outbox.add(Uint8Array.of(3));
  const [piece, ...others] = outbox.take();
  expect([...(piece?.bytes ?? [])]).toEqual([0, 0, 0, 0, 2, 1, 2, 0, 0, 0, 0, 1, 3]);
  expect(others).toEqual([]);
});

test("a large message gets a separate pooled buffer", () => {
  const outbox = outboxOfBytes();
  outbox.add(new Uint8Array(10));
  outbox.add(new Uint8Array(100_000));
  outbox.add(new Uint8Array(10));
  const pieces = outbox.take();
  expect(pieces.map(({ bytes }) => bytes.length)).toEqual([15, 100_005, 15]);
  expect(pieces.map(({ pooled }) => pooled !== undefined)).toEqual([false, true, false]);
});

test("taken pieces never change", () => {
  fc.assert(
    fc.property(fc.array(fc.array(fc.nat(70_000), { maxLength: 6 }), { maxLength: 5 }), (sizes) => {
      const turns = sizes.map((turn) => turn.map((size) => new Uint8Array(size).fill(size)));
      const outbox = outboxOfBytes();
      const taken: Buffer[] = [];
      for (const messages of turns) {
        for (const message of messages) {
          outbox.add(message);
        }
        taken.push(...outbox.take().map(({ bytes }) => bytes));
      }
      const deframer = new Deframer(100_000, createBufferPool(0));
      for (const bytes of taken) {
        deframer.push(bytes);
      }
      for (const message of turns.flat()) {
        expect(deframer.next()).toBe(true);
        const found = deframer.source.subarray(deframer.start, deframer.end);
        expect(Buffer.compare(found, message)).toBe(0);
      }
      expect(deframer.next()).toBe(false);
    }),
  );
});

test("a message that cannot be written leaves the pending bytes unchanged", () => {
  const outbox = new Outbox<Uint8Array>(
    {
      ...bytesCodec,
      write(message, target, offset) {
        target.fill(255, offset, offset + message.length);
        if (message[0] === 13) {
          throw new Error("thirteen");
        }
        return bytesCodec.write(message, target, offset);
      },
    },
    createBufferPool(1024 * 1024),
  );
  outbox.add(Uint8Array.of(1, 1));
  expect(() => outbox.add(Uint8Array.of(13, 13))).toThrow("thirteen");
  expect(() => outbox.add(new Uint8Array(100_000).fill(13))).toThrow("thirteen");
  outbox.add(Uint8Array.of(2, 2));
  const bytes = Buffer.concat(outbox.take().map((piece) => piece.bytes));
  expect([...bytes]).toEqual([0, 0, 0, 0, 2, 1, 1, 0, 0, 0, 0, 2, 2, 2]);
});

test("a codec that writes fewer or more bytes than it announced causes an error", () => {
  const outbox = new Outbox<Uint8Array>(
    { size: (message) => message.length + 1, write: bytesCodec.write },
    createBufferPool(0),
  );
  expect(() => outbox.add(Uint8Array.of(1))).toThrow("expected 2 bytes to be written, received 1");
});

test("the pool reuses returned buffers and keeps no more than its limit", () => {
  const pool = createBufferPool(200_000);
  const first = pool.take(100_000);
  expect(first.length).toBeGreaterThanOrEqual(100_000);
  pool.give(first);
  expect(pool.take(99_999)).toBe(first);
  expect(pool.take(99_999)).not.toBe(first);
  pool.give(first);
  const other = pool.take(150_000);
  pool.give(other); // The pool cannot keep both buffers, so it drops the older.
  expect(pool.take(99_999)).not.toBe(first);
  expect(pool.take(150_000)).toBe(other);
  const huge = pool.take(10_000_000);
  expect(huge).toHaveLength(10_000_000);
  pool.give(huge);
  expect(pool.take(10_000_000) === huge).toBe(false);
});

test("the pool reuses a buffer as large as its limit", () => {
  const limit = 8 * 1024 * 1024;
  const pool = createBufferPool(limit);
  const batch = pool.take(limit);
  pool.give(batch);
  expect(pool.take(limit) === batch).toBe(true);
});
