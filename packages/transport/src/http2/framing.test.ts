// SPDX-License-Identifier: Apache-2.0
import { createArrivingRequestCodec } from "@dm-env-rpc/tensor-codec/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createBufferPool } from "../assembly/buffer-pool.ts";
import { Deframer } from "./framing.ts";

const limit = 1024 * 1024;
const pool = createBufferPool(limit);

function frame(body: Uint8Array, flags = 0): Buffer {
  const header = Buffer.alloc(5);
  header[0] = flags;
  header.writeUInt32BE(body.length, 1);
  return Buffer.concat([header, body]);
}

function readAll(deframer: Deframer): Buffer[] {
  const found: Buffer[] = [];
  while (deframer.next()) {
    found.push(Buffer.from(deframer.source.subarray(deframer.start, deframer.end)));
  }
  return found;
}

const bodies = [
  Buffer.from("first"),
  Buffer.alloc(0),
  Buffer.from("a longer one"),
  Buffer.alloc(300, 7),
];

test("messages are found wherever the bytes are split into two chunks", () => {
  const bytes = Buffer.concat(bodies.map((body) => frame(body)));
  for (let cut = 0; cut <= bytes.length; cut++) {
    const deframer = new Deframer(limit, pool);
    deframer.push(bytes.subarray(0, cut));
    const found = readAll(deframer);
    deframer.push(bytes.subarray(cut));
    found.push(...readAll(deframer));
    expect(found).toEqual(bodies);
    expect(deframer.isInsideMessage).toBe(false);
    expect(deframer.bufferedBytes).toBe(0);
  }
});

test("messages are found in bytes that arrive one by one", () => {
  const deframer = new Deframer(limit, pool);
  const found: Buffer[] = [];
  for (const byte of Buffer.concat(bodies.map((body) => frame(body)))) {
    deframer.push(Buffer.of(byte));
    found.push(...readAll(deframer));
  }
  expect(found).toEqual(bodies);
});

test("messages are found in any chunks, whether they are read at once or later", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.nat(60_000).map((size) => new Uint8Array(size).map((_, i) => i ^ size)),
        { maxLength: 5 },
      ),
      fc.array(fc.nat(70_000), { maxLength: 12, size: "max" }),
      fc.infiniteStream(fc.boolean()),
      fc.nat(7),
      (messages, cuts, readNow, lead) => {
        const bytes = Buffer.concat(messages.map((body) => frame(body)));
        const deframer = new Deframer(limit, pool);
        deframer.assembly.lead = lead;
        const found: Buffer[] = [];
        let at = 0;
        for (const cut of [...cuts, bytes.length]) {
          deframer.push(bytes.subarray(at, at + cut));
          at += cut;
          if (readNow.next().value) {
            found.push(...readAll(deframer));
          }
        }
        deframer.push(bytes.subarray(at));
        found.push(...readAll(deframer));
        expect(found).toEqual(messages.map((body) => Buffer.from(body)));
      },
    ),
  );
});

test("a message that lies in one chunk is not copied", () => {
  const deframer = new Deframer(limit, pool);
  const chunk = Buffer.concat([frame(Buffer.from("one")), frame(Buffer.from("two"))]);
  deframer.push(chunk);
  expect(deframer.next()).toBe(true);
  expect(deframer.source).toBe(chunk);
  expect([deframer.start, deframer.end, deframer.assembled]).toEqual([5, 8, false]);
  expect(deframer.next()).toBe(true);
  expect(deframer.source).toBe(chunk);
});

test("a message of several chunks has memory of its own, and starts at the given offset", () => {
  const deframer = new Deframer(limit, pool);
  deframer.assembly.lead = 3;
  const bytes = frame(Buffer.alloc(100_000, 9));
  deframer.push(bytes.subarray(0, 50_000));
  expect(deframer.next()).toBe(false);
  deframer.push(bytes.subarray(50_000));
  expect(deframer.next()).toBe(true);
  expect([deframer.start, deframer.end, deframer.assembled]).toEqual([3, 100_003, true]);
  expect(deframer.source.byteOffset).toBe(0);
  expect(deframer.source.buffer).not.toBe(bytes.buffer);
});

test("memory for an announced message is not allocated long before its bytes arrive", () => {
  const deframer = new Deframer(64 * limit, pool);
  const header = Buffer.alloc(5);
  header.writeUInt32BE(60 * limit, 1);
  deframer.push(Buffer.concat([header, Buffer.alloc(10)]));
  const before = process.memoryUsage().arrayBuffers;
  expect(deframer.next()).toBe(false);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 * 1024);
  for (let i = 0; i < 100; i++) {
    deframer.push(Buffer.alloc(1_000));
    expect(deframer.next()).toBe(false);
  }
  expect(deframer.bufferedBytes).toBe(100_010);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(512 * 1024);
});

test("messages of which only a part arrives use the same memory, one after the other", () => {
  const seen = new Set<Buffer>();
  const watched = {
    take(bytes: number): Buffer {
      const buffer = pool.take(bytes);
      seen.add(buffer);
      return buffer;
    },
    give: pool.give,
  };
  for (let i = 0; i < 100; i++) {
    const deframer = new Deframer(64 * limit, watched);
    const part = Buffer.alloc(500_000);
    part.writeUInt32BE(60 * limit, 1);
    deframer.push(part);
    expect(deframer.next()).toBe(false);
    expect(deframer.bufferedBytes).toBe(part.length - 5);
    deframer.clear();
  }
  expect(seen.size).toBe(Math.ceil((500_000 - 16 * 1024) / (64 * 1024)));
});

test("a length above the limit is refused before its first byte arrives", () => {
  const deframer = new Deframer(1_000, pool);
  deframer.push(frame(Buffer.alloc(1_000)));
  expect(deframer.next()).toBe(true);
  deframer.push(Buffer.of(0, 0, 0, 0x03, 0xe9));
  expect(deframer.next()).toBe(false);
  expect(deframer.failure?.code).toBe("RESOURCE_EXHAUSTED");
  expect(deframer.failure?.message).toMatch(
    /at most 1000 bytes, received 1001 bytes.*maxMessageBytes/,
  );
  deframer.push(frame(Buffer.from("more")));
  expect(deframer.next()).toBe(false);
});

test("a compression flag that gRPC does not define is malformed", () => {
  const deframer = new Deframer(limit, pool);
  deframer.push(frame(Buffer.from("?"), 2));
  expect(deframer.next()).toBe(false);
  expect(deframer.failure?.code).toBe("INTERNAL");
  expect(deframer.failure?.message).toContain("received 2");
});

test("the compressed flag applies to each message separately", () => {
  const deframer = new Deframer(limit, pool);
  deframer.push(Buffer.concat([frame(Buffer.from("a"), 1), frame(Buffer.from("b"), 0)]));
  expect([deframer.next(), deframer.compressed]).toEqual([true, true]);
  expect([deframer.next(), deframer.compressed]).toEqual([true, false]);
});

test("an end inside a header or a body is detected", () => {
  for (const length of [1, 4, 5, 7]) {
    const deframer = new Deframer(limit, pool);
    deframer.push(frame(Buffer.from("abc")).subarray(0, length));
    expect(deframer.next()).toBe(false);
    expect(deframer.isInsideMessage).toBe(true);
  }
});

test("small chunks that wait are counted as more than their bytes", () => {
  const deframer = new Deframer(limit, pool);
  for (let i = 0; i < 300; i++) {
    deframer.push(Buffer.of(0));
  }
  expect(deframer.bufferedBytes).toBeGreaterThan(64 * 1024);
});

test("chunks are released once they are read, and clear drops all others", () => {
  const deframer = new Deframer(limit, pool);
  deframer.push(frame(Buffer.alloc(1_000)));
  expect(deframer.next()).toBe(true);
  expect(deframer.next()).toBe(false);
  expect(deframer.source).toHaveLength(0);
  deframer.push(frame(Buffer.alloc(1_000)).subarray(0, 500));
  deframer.next();
  deframer.clear();
  expect(deframer.isInsideMessage).toBe(false);
  expect(deframer.bufferedBytes).toBe(0);
});

test("a message is assembled in spare memory, unless the memory is too small or far too large", () => {
  const body = Buffer.alloc(30_000, 3);
  for (const [size, serves] of [
    [29_999, false],
    [30_000, true],
    [120_000, true],
    [120_001, false],
  ] as const) {
    const deframer = new Deframer(limit, pool);
    const spare = Buffer.alloc(size);
    deframer.assembly.spare = spare;
    for (const half of [frame(body).subarray(0, 9), frame(body).subarray(9)]) {
      deframer.push(half);
      deframer.next();
    }
    expect(deframer.source === spare).toBe(serves);
    expect(deframer.source.subarray(deframer.start, deframer.end)).toEqual(body);
    expect(deframer.assembly.spare).toBeUndefined();
  }
});

test("a chunk is released if little of it is unread, and the unread bytes are read later", () => {
  const deframer = new Deframer(limit, pool);
  const read = Buffer.alloc(64 * 1024);
  frame(Buffer.alloc(60_000, 1)).copy(read);
  frame(Buffer.from("abc")).copy(read, 60_005);
  deframer.push(read.subarray(0, 60_013));
  expect(deframer.next()).toBe(true);
  deframer.release();
  expect(deframer.source.buffer).not.toBe(read.buffer);
  expect(deframer.bufferedBytes).toBe(8);
  expect(deframer.next()).toBe(true);
  expect(deframer.source.buffer).not.toBe(read.buffer);
  expect(deframer.source.subarray(deframer.start, deframer.end).toString()).toBe("abc");
  deframer.release();
  expect([deframer.source.length, deframer.next()]).toEqual([0, false]);
});

/** A request with more unknown fields than the codec's limit. */
function costly(size: number): Buffer {
  return Buffer.alloc(size, Buffer.of(0xa0, 1, 1));
}

/** A deframer that checks messages while they arrive, and the sizes of the messages that it has checked. */
function checking(): { readonly deframer: Deframer; readonly checked: readonly number[] } {
  const { arriving } = createArrivingRequestCodec();
  const checked: number[] = [];
  const deframer = new Deframer(64 * limit, pool, "server", (size) => {
    checked.push(size);
    return arriving?.(size) as NonNullable<ReturnType<NonNullable<typeof arriving>>>;
  });
  return { deframer, checked };
}

test("a message that is refused while it arrives is dropped, and the next one is found", () => {
  for (const [size, chunkBytes] of [
    [8 * limit, 16_384],
    [8 * limit, 100_000],
    // It is refused at its last byte.
    [3 * 2 ** 18 + 3, 9_000],
  ] as const) {
    const { deframer } = checking();
    const bytes = Buffer.concat([frame(costly(size)), frame(Buffer.from("next"))]);
    const refusals: (string | undefined)[] = [];
    const found: string[] = [];
    let most = 0;
    for (let at = 0; at < bytes.length; at += chunkBytes) {
      deframer.push(bytes.subarray(at, at + chunkBytes));
      for (;;) {
        if (deframer.next()) {
          found.push(deframer.source.toString("utf8", deframer.start, deframer.end));
          continue;
        }
        const refusal = deframer.takeRefusal();
        if (refusal === undefined) {
          break;
        }
        refusals.push(refusal.value.message);
      }
      const left = size - Math.min(size, at + chunkBytes - 5);
      expect([deframer.isInsideBody(left - 1), deframer.isInsideBody(left)]).toEqual([
        left > 1,
        false,
      ]);
      expect(deframer.isInsideMessage).toBe(at + chunkBytes < bytes.length);
      most = Math.max(most, deframer.bufferedBytes);
      if (refusals.length > 0) {
        expect(deframer.bufferedBytes).toBe(0);
      }
    }
    expect(refusals).toEqual([expect.stringContaining("maxMessageWork")]);
    expect(found).toEqual(["next"]);
    expect(most).toBeLessThan(limit);
  }
});

test("the memory of a refused message returns to the pool", () => {
  let taken = 0;
  const counting = {
    take(bytes: number): Buffer {
      taken += 1;
      return pool.take(bytes);
    },
    give(buffer: Buffer): void {
      taken -= 1;
      pool.give(buffer);
    },
  };
  const deframer = new Deframer(
    64 * limit,
    counting,
    "server",
    createArrivingRequestCodec().arriving,
  );
  const bytes = frame(costly(8 * limit));
  const counts: number[] = [];
  for (let at = 0; at < bytes.length; at += 16_384) {
    deframer.push(bytes.subarray(at, at + 16_384));
    deframer.next();
    counts.push(taken);
  }
  expect(Math.max(...counts)).toBeGreaterThan(5);
  expect(taken).toBe(0);
});

test("only messages above 64 KiB that span several chunks, and are not compressed, are checked", () => {
  const { deframer, checked } = checking();
  const small = Buffer.alloc(64 * 1024);
  const large = Buffer.alloc(64 * 1024 + 1);
  deframer.push(Buffer.concat([frame(large), frame(large, 1).subarray(0, 50)]));
  readAll(deframer);
  deframer.push(frame(large, 1).subarray(50));
  readAll(deframer);
  for (const body of [small, large]) {
    deframer.push(frame(body).subarray(0, 50));
    readAll(deframer);
    deframer.clear();
  }
  expect(checked).toEqual([large.length]);
});
