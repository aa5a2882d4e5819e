// SPDX-License-Identifier: Apache-2.0
import type { Writable } from "node:stream";
import { createArrivingRequestCodec } from "@dm-env-rpc/tensor-codec/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import * as ws from "ws";
import { createBufferPool } from "../assembly/buffer-pool.ts";
import { FrameReader } from "./frame-reader.ts";
import { mask } from "./mask.ts";

const maxMessageBytes = 1_000;
const pool = createBufferPool(1024 * 1024);

/** The library's receiver, which its types leave out. */
const { Receiver } = ws as unknown as {
  readonly Receiver: new (options: { isServer: boolean; maxPayload: number }) => Writable;
};

/** A frame: its first byte and its body. */
interface SentFrame {
  readonly first: number;
  readonly body: Uint8Array;
}

/** Writes a frame as RFC 6455, section 5.2, defines it. */
function frame({ first, body }: SentFrame, isMasked: boolean): Buffer {
  const { length } = body;
  const maskBit = isMasked ? 0x80 : 0;
  const header =
    length < 126
      ? [first, maskBit | length]
      : length < 0x1_0000
        ? [first, maskBit | 126, length >> 8, length & 0xff]
        : [first, maskBit | 127, 0, 0, 0, 0, 0, length >> 16, (length >> 8) & 0xff, length & 0xff];
  if (!isMasked) {
    return Buffer.from([...header, ...body]);
  }
  const key = [7, 130, 9, 255];
  const bytes = Buffer.from([...header, ...key, ...body]);
  mask(bytes, header.length + 4, bytes.length, Uint8Array.from(key), 0);
  return bytes;
}

/** Splits bytes at positions given as fractions of their length. */
function split(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [...cuts.map((cut) => Math.floor(cut * bytes.length)), 0, bytes.length];
  at.sort((a, b) => a - b);
  return at.slice(1).map((end, index) => Buffer.from(bytes.subarray(at[index], end)));
}

/** Adds the events of a receiver of the library to a list. */
function library(isMasked: boolean, events: unknown[]): Writable {
  const receiver = new Receiver({ isServer: isMasked, maxPayload: maxMessageBytes });
  receiver.on("message", (data: Buffer, isBinary: boolean) => events.push([isBinary, [...data]]));
  receiver.on("ping", (data: Buffer) => events.push(["ping", [...data]]));
  receiver.on("pong", (data: Buffer) => events.push(["pong", [...data]]));
  receiver.on("conclude", (code: number) => events.push(["close", code]));
  receiver.on("error", () => events.push("error"));
  return receiver;
}

const body = (maxLength: number) => fc.uint8Array({ maxLength, size: "max" });
const sized = fc.constantFrom(0, 1, 125, 126, 127, 1_000).map((size) => new Uint8Array(size));
const binary = fc.oneof(body(40), sized).map((bytes) => [{ first: 0x82, body: bytes }]);
const valid = fc.oneof(
  { weight: 5, arbitrary: binary },
  body(125).map((bytes) => [{ first: 0x89, body: bytes }]),
  body(125).map((bytes) => [{ first: 0x8a, body: bytes }]),
);
const rare = fc.oneof(
  fc.tuple(body(20), body(20), body(20)).map(([begin, ping, end]) => [
    { first: 0x02, body: begin },
    { first: 0x89, body: ping },
    { first: 0x80, body: end },
  ]),
  fc.constant([{ first: 0x81, body: Buffer.from("end") }]),
  fc.constant([{ first: 0x88, body: Uint8Array.of(0x03, 0xe8) }]),
  // Frames that break the protocol: too large, a reserved bit, a continuation without a message, an unknown opcode, a
  // ping of 126 bytes.
  fc.constant([{ first: 0x82, body: new Uint8Array(1_001) }]),
  fc.constant([{ first: 0xc2, body: new Uint8Array(3) }]),
  fc.constant([{ first: 0x80, body: new Uint8Array(3) }]),
  fc.constant([{ first: 0x83, body: new Uint8Array(3) }]),
  fc.constant([{ first: 0x89, body: new Uint8Array(126) }]),
);
const sent = fc
  .array(fc.oneof({ weight: 8, arbitrary: valid }, { weight: 1, arbitrary: rare }), {
    maxLength: 12,
    size: "max",
  })
  .map((parts) => parts.flat());
const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 6 });

test.each([
  ["client", true],
  ["server", false],
])(
  "the reader finds the same frames of a %s as the library, in chunks of any size",
  async (_side, isMasked) => {
    await fc.assert(
      fc.asyncProperty(sent, cuts, async (frames, cuts) => {
        const bytes = Buffer.concat(frames.map((each) => frame(each, isMasked)));
        const expected: unknown[] = [];
        const alone = library(isMasked, expected);
        alone.write(Buffer.from(bytes));

        const received: unknown[] = [];
        const behind = library(isMasked, received);
        behind.on("error", () => reader.close());
        const reader = new FrameReader({
          isMasked,
          maxMessageBytes,
          pool,
          onRefusal() {},
          onMessage: (chunk, start, end) => received.push([true, [...chunk.subarray(start, end)]]),
          onOther: (part) => behind.write(part),
          onBehind() {},
        });
        for (const [index, chunk] of split(bytes, cuts).entries()) {
          if (index % 2 === 1) {
            reader.pause();
            reader.push(chunk);
            reader.resume();
            reader.readOn();
          } else {
            reader.push(chunk);
          }
          await Promise.resolve(); // The library reports an error in a later turn.
          await new Promise((resolve) => process.nextTick(resolve));
        }
        expect(received).toEqual(expected);
      }),
      { numRuns: 2_000 },
    );
  },
);

test("messages bypass the library until a frame breaks the protocol", () => {
  const passed: number[] = [];
  const messages: number[] = [];
  const reader = new FrameReader({
    isMasked: false,
    maxMessageBytes,
    pool,
    onRefusal() {},
    onMessage: (_chunk, start, end) => messages.push(end - start),
    onOther: ({ length }) => passed.push(length),
    onBehind() {},
  });
  const message = frame({ first: 0x82, body: new Uint8Array(5) }, false);
  const ping = frame({ first: 0x89, body: new Uint8Array(1) }, false);
  reader.push(Buffer.concat([message, ping, message]));
  expect([messages, passed]).toEqual([[5, 5], [3]]);
  reader.push(frame({ first: 0xc2, body: new Uint8Array(2) }, false));
  reader.push(message);
  expect([messages, passed]).toEqual([
    [5, 5],
    [3, 4, 7],
  ]);
});

test("bytes of an incomplete message are counted, but bytes of control frames are not", () => {
  const reader = new FrameReader({
    isMasked: true,
    maxMessageBytes,
    pool,
    onRefusal() {},
    onMessage() {},
    onOther() {},
    onBehind() {},
  });
  const message = frame({ first: 0x82, body: new Uint8Array(200) }, true);
  reader.push(frame({ first: 0x89, body: new Uint8Array(100) }, true).subarray(0, 50));
  expect(reader.partialBytes).toBe(0);
  reader.push(Buffer.alloc(56));
  reader.push(message.subarray(0, 3));
  expect(reader.partialBytes).toBe(3);
  reader.push(message.subarray(3, 100));
  expect(reader.partialBytes).toBe(100);
  reader.push(Buffer.concat([message.subarray(100), message, message.subarray(0, 10)]));
  expect(reader.partialBytes).toBe(10);
  reader.close();
  expect(reader.partialBytes).toBe(0);
});

test("the bytes that the library keeps of an incomplete message do not keep the memory of whole chunks", () => {
  const others: Uint8Array[] = [];
  const reader = new FrameReader({
    isMasked: true,
    maxMessageBytes,
    pool,
    onRefusal() {},
    onMessage() {},
    onOther: (bytes) => others.push(bytes),
    onBehind() {},
  });
  const part = frame({ first: 0x02, body: new Uint8Array(1) }, true);
  const next = frame({ first: 0x00, body: new Uint8Array(1) }, true);
  const pong = frame({ first: 0x8a, body: new Uint8Array(0) }, true);
  for (const begin of [part, next, next]) {
    reader.push(Buffer.concat([begin, Buffer.alloc(20 * pong.length, pong)]));
  }
  expect(reader.partialBytes).toBe(3 * (part.length + 256));
  const kept = others.filter((bytes) => bytes[0] === 0x02 || bytes[0] === 0x00);
  expect(kept.map(({ buffer }) => buffer.byteLength)).toEqual(Array(3).fill(part.length));
});

test("a reader that is paused at a message holds the rest of the chunk as bytes", () => {
  const messages: number[] = [];
  let behind = 0;
  const reader: FrameReader = new FrameReader({
    isMasked: false,
    maxMessageBytes,
    pool,
    onRefusal() {},
    onMessage: (_chunk, start, end) => {
      messages.push(end - start);
      if (messages.length === 2) {
        reader.pause();
      }
    },
    onOther() {},
    onBehind: () => {
      behind += 1;
    },
  });
  const message = frame({ first: 0x82, body: new Uint8Array(5) }, false);
  reader.push(Buffer.concat(Array<Buffer>(1_000).fill(message)));
  expect([messages.length, behind, reader.partialBytes]).toEqual([2, 1, 998 * 7]);
  reader.readOn();
  expect(messages.length).toBe(2);
  reader.resume();
  reader.readOn();
  expect([messages.length, reader.isBehind, reader.partialBytes]).toEqual([1_000, false, 0]);
});

test("frames that the library handles use a limited share of each turn of the event loop", () => {
  let passed = 0;
  let behind = 0;
  const reader = new FrameReader({
    isMasked: false,
    maxMessageBytes,
    pool,
    onRefusal() {},
    onMessage() {},
    onOther: () => {
      passed += 1;
    },
    onBehind: () => {
      behind += 1;
    },
  });
  const text = frame({ first: 0x81, body: Buffer.from("chess") }, false);
  reader.push(Buffer.concat(Array<Buffer>(1_000).fill(text)));
  expect([passed, behind]).toEqual([64, 1]);
  reader.readOn();
  expect([passed, behind]).toEqual([128, 2]);
});

test("a reader that drops frames still passes the close frame to the library", () => {
  const passed: number[] = [];
  const reader = new FrameReader({
    isMasked: true,
    maxMessageBytes,
    pool,
    onRefusal() {},
    onMessage: () => passed.push(0),
    onOther: ({ length }) => passed.push(length),
    onBehind() {},
  });
  const text = frame({ first: 0x81, body: Buffer.from("chess") }, true);
  const message = frame({ first: 0x82, body: new Uint8Array(5) }, true);
  const large = frame({ first: 0x82, body: new Uint8Array(500) }, true);
  const close = frame({ first: 0x88, body: Uint8Array.of(0x03, 0xe8) }, true);
  reader.push(large.subarray(0, 300));
  reader.drop();
  expect(reader.partialBytes).toBe(0);
  reader.push(Buffer.concat([large.subarray(300), text, message, text, close.subarray(0, 1)]));
  reader.push(close.subarray(1));
  expect(passed).toEqual([1, close.length - 1]);
});

test("a large message that is refused while it arrives is dropped, and its memory returns to the pool", () => {
  let inUse = 0;
  const refusals: (string | undefined)[] = [];
  const messages: number[] = [];
  const reader = new FrameReader({
    isMasked: true,
    maxMessageBytes: 4_000_000,
    pool: {
      take: (bytes) => {
        inUse += 1;
        return Buffer.alloc(bytes);
      },
      give: () => {
        inUse -= 1;
      },
    },
    arriving: createArrivingRequestCodec().arriving,
    onMessage: (_chunk, start, end) => messages.push(end - start),
    onRefusal: ({ value }) => refusals.push(value.message),
    onOther() {},
    onBehind() {},
  });
  const unknownFields = new Uint8Array(3_000_000).map((_, i) => [0xa0, 1, 1][i % 3] ?? 0);
  const bytes = Buffer.concat([
    frame({ first: 0x82, body: unknownFields }, true),
    frame({ first: 0x82, body: new Uint8Array(5) }, true),
  ]);
  let most = 0;
  let mostInUse = 0;
  for (let at = 0; at < bytes.length; at += 10_000) {
    reader.push(Buffer.from(bytes.subarray(at, at + 10_000)));
    reader.readOn();
    most = Math.max(most, reader.partialBytes);
    mostInUse = Math.max(mostInUse, inUse);
    if (refusals.length > 0) {
      expect([reader.partialBytes, inUse, reader.isChecking]).toEqual([0, 0, false]);
    }
  }
  expect(refusals).toEqual([expect.stringContaining("maxMessageWork")]);
  expect(messages).toEqual([5]);
  expect(mostInUse).toBeGreaterThan(3);
  expect(most).toBeLessThan(1_000_000);
});

test("the check of a large message takes a limited share of each turn of the event loop", () => {
  let checked = 0;
  let behind = 0;
  const reader = new FrameReader({
    isMasked: true,
    maxMessageBytes: 4_000_000,
    pool,
    arriving: () => ({
      add: (_source, start, end) => {
        checked += end - start;
        return undefined;
      },
    }),
    onMessage() {},
    onRefusal() {},
    onOther() {},
    onBehind: () => {
      behind += 1;
    },
  });
  const bytes = frame({ first: 0x82, body: new Uint8Array(300_000) }, true);
  for (let at = 0; at < bytes.length; at += 64 * 1024) {
    reader.push(bytes.subarray(at, at + 64 * 1024));
  }
  expect(checked).toBeLessThanOrEqual(2 * 64 * 1024);
  expect(behind).toBeGreaterThan(0);
  for (let turns = 0; turns < 4; turns++) {
    const before = checked;
    reader.readOn();
    expect(checked - before).toBeLessThanOrEqual(2 * 64 * 1024);
  }
  expect(checked).toBe(300_000);
});
