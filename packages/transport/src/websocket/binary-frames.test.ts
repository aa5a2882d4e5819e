// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { BinaryFrames } from "./binary-frames.ts";

/** Sizes just below and above each size at which the header or the way of writing changes. */
const sizes = [
  0, 0, 1, 3, 4, 125, 125, 126, 126, 127, 32_768, 32_768, 32_769, 32_769, 65_535, 65_536, 200_001,
  200_002, 5,
];

const messageOf = (size: number): Uint8Array =>
  Uint8Array.from({ length: size }, (_, index) => index * 7 + size);

const bytesEncoder = {
  size: (message: Uint8Array) => message.length,
  write(message: Uint8Array, target: Uint8Array, offset: number) {
    target.set(message, offset);
    return offset + message.length;
  },
};

/** Reads frames as RFC 6455, section 5.2, defines them. */
function read(bytes: Buffer): { readonly isMasked: boolean; readonly message: Uint8Array }[] {
  const messages: { isMasked: boolean; message: Uint8Array }[] = [];
  for (let at = 0; at < bytes.length; ) {
    expect(bytes[at]).toBe(0x82);
    const second = bytes[at + 1] ?? 0;
    const isMasked = second >= 0x80;
    let length = second & 0x7f;
    at += 2;
    if (length === 126) {
      length = bytes.readUInt16BE(at);
      at += 2;
    } else if (length === 127) {
      length = Number(bytes.readBigUInt64BE(at));
      at += 8;
    }
    const mask = isMasked ? bytes.subarray(at, at + 4) : Buffer.alloc(4);
    at += isMasked ? 4 : 0;
    const message = Uint8Array.from(
      bytes.subarray(at, at + length),
      (byte, i) => byte ^ (mask[i % 4] ?? 0),
    );
    messages.push({ isMasked, message });
    at += length;
  }
  return messages;
}

test.each([
  ["client", true],
  ["server", false],
])("frames of a %s hold the messages that were added, in order", (_side, isMasked) => {
  const frames = new BinaryFrames(isMasked);
  for (const [index, size] of sizes.entries()) {
    const message = messageOf(size);
    if (index % 2 === 0) {
      frames.add(message);
    } else {
      frames.encode(message, bytesEncoder);
    }
  }
  expect([frames.count, frames.bytes]).toEqual([sizes.length, sizes.reduce((a, b) => a + b)]);
  const received = read(Buffer.concat(frames.take()));
  expect(received).toEqual(sizes.map((size) => ({ isMasked, message: messageOf(size) })));
  expect([frames.count, frames.bytes, frames.take()]).toEqual([0, 0, []]);
});

test("every frame of a client has a different mask", () => {
  const frames = new BinaryFrames(true);
  const masks = new Set<string>();
  for (let i = 0; i < 300; i++) {
    frames.add(new Uint8Array(4));
    const [piece = new Uint8Array(0)] = frames.take();
    masks.add(Buffer.from(piece.subarray(2, 6)).toString("hex"));
  }
  expect(masks.size).toBeGreaterThan(295);
});

test("pieces that were taken do not change", () => {
  const frames = new BinaryFrames(false);
  frames.encode(messageOf(4), bytesEncoder);
  const [piece = new Uint8Array(0)] = frames.take();
  const before = [...piece];
  frames.encode(messageOf(5), bytesEncoder);
  frames.take();
  expect([...piece]).toEqual(before);
});
