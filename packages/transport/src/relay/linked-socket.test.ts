// SPDX-License-Identifier: Apache-2.0
import type { Frame } from "@dm-env-rpc/protocol/relay";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { goodbyeMs } from "../limits/limits.ts";
import { type FrameContent, LinkedSocket, type LinkedSocketOptions } from "./linked-socket.ts";

/** Credit that a frame costs in addition to its content, in bytes. */
const cost = 64;

/** Memory that a part counts as in addition to its content, in bytes. */
const overhead = 256;

/** Creates a stream of a link, and records its events and the frames that it sends. */
function created(options: Partial<LinkedSocketOptions> = {}) {
  const sent: FrameContent[] = [];
  const events: string[] = [];
  const received: Uint8Array[] = [];
  const socket = new LinkedSocket({
    credit: 10_000,
    windowBytes: 10_000,
    maxPartBytes: 100,
    maxMessageBytes: 1_000,
    later: (task) => setImmediate(task),
    send: (content) => sent.push(content),
    onClosed: () => events.push("closed"),
    ...options,
  });
  socket.start({
    onBinary: (source, start, end) => {
      received.push(source.subarray(start, end));
      events.push(`binary ${end - start}`);
    },
    onText: (text) => events.push(`text ${text}`),
    onDrain: () => events.push("drain"),
    onPartial: () => events.push(`partial ${socket.partialBytes}`),
    onRefusal: () => events.push("refused"),
    onTooLarge: () => events.push("too large"),
    onClose: (code, reason) => events.push(`close ${code} ${reason}`),
  });
  /** The frames sent since the last call, as their kinds and sizes. */
  const taken = (): readonly string[] => sent.splice(0).map(described);
  return { socket, events, received, taken };
}

function described(content: FrameContent): string {
  switch (content.case) {
    case "message":
    case "part":
      return `${content.case} ${content.value.length}`;
    case "close":
      return `close ${content.value.code} ${content.value.reason}`;
    case "text":
    case "credit":
      return `${content.case} ${content.value}`;
    default:
      return String(content.case);
  }
}

type Kind = Frame["kind"];

const message = (size: number): Kind => ({ case: "message", value: new Uint8Array(size) });
const part = (size: number): Kind => ({ case: "part", value: new Uint8Array(size) });
const text = (value: string): Kind => ({ case: "text", value });
const credit = (value: number): Kind => ({ case: "credit", value });
const close = (code: number, reason = ""): Kind => ({
  case: "close",
  value: { $typeName: "relay.v1.Close", code, reason },
});

describe("a message that is sent", () => {
  test.each([
    [0, ["message 0"]],
    [1, ["message 1"]],
    [100, ["message 100"]],
    [101, ["part 100", "message 1"]],
    [300, ["part 100", "part 100", "message 100"]],
  ])("of %d bytes is split into frames of at most maxPartBytes", (size, frames) => {
    const { socket, taken } = created();
    socket.sendBinary(new Uint8Array(size));
    expect(taken()).toEqual(frames);
    expect(socket.bufferedBytes).toBe(0);
  });

  test("has the same bytes when its parts are joined", () => {
    const sent: FrameContent[] = [];
    const { socket } = created({ send: (content) => sent.push(content) });
    const bytes = Uint8Array.from({ length: 250 }, (_, index) => index);
    socket.sendBinary(bytes);
    const joined = sent.flatMap((frame) =>
      frame.case === "message" || frame.case === "part" ? [...frame.value] : [],
    );
    expect(joined).toEqual([...bytes]);
  });

  test("costs the bytes of its content, and 64 bytes of credit for each frame", () => {
    const { socket, taken } = created({ credit: 100 + cost + 1 + cost });
    socket.sendBinary(new Uint8Array(101));
    expect(taken()).toEqual(["part 100", "message 1"]);
    socket.sendBinary(new Uint8Array(0));
    expect(taken()).toEqual([]);
    expect(socket.bufferedBytes).toBe(cost);
    expect(socket.take(credit(cost - 1))).toBeUndefined();
    expect(taken()).toEqual([]);
    expect(socket.take(credit(1))).toBeUndefined();
    expect(taken()).toEqual(["message 0"]);
  });

  test("is sent as far as the credit allows; credit for a frame without content sends nothing", () => {
    const { socket, taken, events } = created({ credit: cost + 30 });
    socket.sendBinary(new Uint8Array(100));
    expect(taken()).toEqual(["part 30"]);
    expect(socket.bufferedBytes).toBe(70 + cost);
    socket.take(credit(cost));
    expect(taken()).toEqual([]);
    socket.take(credit(50));
    expect(taken()).toEqual(["part 50"]);
    expect(socket.bufferedBytes).toBe(20 + cost);
    socket.take(credit(cost + 20));
    expect(taken()).toEqual(["message 20"]);
    expect(socket.bufferedBytes).toBe(0);
    expect(events).toEqual(["drain", "drain", "drain"]);
  });

  test("waits behind every earlier message; a text also waits for enough credit for all its bytes", () => {
    const { socket, taken } = created({ credit: 0 });
    socket.sendBinary(new Uint8Array(10));
    socket.sendText("é");
    socket.sendBinary(new Uint8Array(1));
    expect(socket.bufferedBytes).toBe(10 + 2 + 1 + 3 * cost);
    socket.take(credit(10 + cost + 2 + cost - 1));
    expect(taken()).toEqual(["message 10"]);
    socket.take(credit(1));
    expect(taken()).toEqual(["text é"]);
    expect(socket.bufferedBytes).toBe(1 + cost);
    socket.take(credit(cost + 1));
    expect(taken()).toEqual(["message 1"]);
  });

  test("is encoded in memory of its own", () => {
    const { socket, taken } = created();
    socket.sendMessage("abc", {
      size: (value) => value.length,
      write: (value, bytes, start) => start + new TextEncoder().encodeInto(value, bytes).written,
    });
    expect(taken()).toEqual(["message 3"]);
  });

  test("has at most 2 ** 32 - 1 bytes of credit", () => {
    const { socket } = created({ credit: 1 });
    expect(socket.take(credit(2 ** 32 - 2))).toBeUndefined();
    expect(socket.take(credit(1))).toEqual(["credit of at most 4294967295 bytes", "more"]);
  });
});

describe("a message that is received", () => {
  test("is delivered whole, with its parts in order", () => {
    const { socket, events, received } = created();
    socket.take({ case: "part", value: Uint8Array.of(1, 2) });
    socket.take({ case: "part", value: Uint8Array.of(3) });
    expect(socket.partialBytes).toBe(3 + 2 * overhead);
    socket.take({ case: "message", value: Uint8Array.of(4) });
    expect(received.map((bytes) => [...bytes])).toEqual([[1, 2, 3, 4]]);
    expect(events).toEqual([
      `partial ${2 + overhead}`,
      `partial ${3 + 2 * overhead}`,
      "partial 0",
      "binary 4",
    ]);
    socket.take(message(0));
    expect(events.at(-1)).toBe("binary 0");
  });

  test("is copied if it is small or a part, so that it keeps no chunk in memory, but not if it is large", () => {
    const { socket, received } = created({ windowBytes: 100_000, maxMessageBytes: 100_000 });
    const chunk = Buffer.alloc(20_000);
    socket.take({ case: "message", value: chunk.subarray(0, 4_096) });
    socket.take({ case: "message", value: chunk.subarray(0, 4_097) });
    socket.take({ case: "part", value: chunk.subarray(0, 8_000) });
    chunk.fill(7);
    socket.take({ case: "message", value: new Uint8Array(1) });
    expect(received.map((bytes) => [bytes.length, bytes[0]])).toEqual([
      [4_096, 0],
      [4_097, 7],
      [8_001, 0],
    ]);
  });

  test("is refused if it has an empty part", () => {
    const { socket } = created();
    expect(socket.take(part(0))).toEqual(["parts with content", "an empty part"]);
    expect(socket.take(part(1))).toBeUndefined();
  });

  test("is refused above the credit, even if it is a text or a part", () => {
    for (const last of [message(1), part(1), text("x")]) {
      const { socket, events } = created({ windowBytes: 1_000, maxMessageBytes: 10_000 });
      socket.pause();
      expect(socket.take(message(1_000 - 2 * cost))).toBeUndefined();
      expect(socket.take(last)).toEqual([
        `frames of at most ${cost} bytes of credit`,
        "a frame of 65",
      ]);
      expect(socket.take(message(0))).toBeUndefined();
      expect(events).toEqual([`binary ${1_000 - 2 * cost}`, "binary 0"]);
    }
  });

  test("has its credit returned once half of the window is used", () => {
    const { socket, taken } = created({ windowBytes: 1_000 });
    socket.take(message(500 - cost - 1));
    expect(taken()).toEqual([]);
    socket.take(text(""));
    expect(taken()).toEqual([`credit ${499 + cost}`]);
    for (let count = 0; count < 100; count++) {
      expect(socket.take(message(900))).toBeUndefined();
    }
    expect(taken()).toEqual(Array.from({ length: 100 }, () => `credit ${900 + cost}`));
    socket.take(text("é".repeat(218)));
    expect(taken()).toEqual([`credit ${2 * 218 + cost}`]);
  });

  test("has its credit returned on resume if the stream was paused", () => {
    const { socket, events, taken } = created({ windowBytes: 1_000 });
    socket.pause();
    socket.take(message(900));
    expect(events).toEqual(["binary 900"]);
    expect(taken()).toEqual([]);
    expect(socket.take(message(1))).toBeDefined();
    socket.resume();
    expect(taken()).toEqual([`credit ${900 + cost}`]);
    expect(socket.take(message(900))).toBeUndefined();
  });

  test.each([
    ["at once", [message(1_001)], []],
    ["in parts", [part(600), part(401)], [`partial ${600 + overhead}`]],
    ["with its last part", [part(1_000), message(1)], [`partial ${1_000 + overhead}`]],
  ])(
    "above the limit %s is reported once, and all later messages are dropped",
    (_how, frames, before) => {
      const { socket, events, taken } = created();
      for (const frame of frames) {
        expect(socket.take(frame)).toBeUndefined();
      }
      expect(events).toEqual([...before, "partial 0", "too large"]);
      events.splice(0);
      taken();
      socket.take(message(1));
      socket.take(part(1));
      socket.take(text("x"));
      socket.take(message(6_000));
      expect(events).toEqual([]);
      // A peer that keeps sending runs out of credit.
      expect(taken()).toEqual([]);
      expect(socket.take(message(9_000))).toBeDefined();
    },
  );

  test("of exactly the limit is delivered, whole or in parts", () => {
    const { socket, events } = created();
    socket.take(message(1_000));
    socket.take(part(999));
    socket.take(message(1));
    expect(events).toEqual([
      "binary 1000",
      `partial ${999 + overhead}`,
      "partial 0",
      "binary 1000",
    ]);
  });
});

test.each<[string, Kind]>([
  ['"ping"', { case: "ping", value: { $typeName: "relay.v1.Ping" } }],
  ["a frame without a kind", { case: undefined }],
])("a frame of another kind, such as %s, breaks the protocol", (received, kind) => {
  const { socket } = created();
  expect(socket.take(kind)).toEqual([
    "a frame kind that the protocol defines for a stream",
    received,
  ]);
});

describe("the end of a stream", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test("follows all messages that were sent before, and drops messages that are sent later", () => {
    const { socket, taken, events } = created({ credit: 0 });
    socket.sendBinary(new Uint8Array(1));
    socket.close(4005, "not found");
    socket.close(1000, "again");
    socket.sendText("later");
    expect(taken()).toEqual([]);
    socket.take(credit(1_000));
    expect(taken()).toEqual(["message 1", "close 4005 not found"]);
    socket.take(message(3));
    expect(events).toEqual(["drain", "binary 3"]);
    socket.take(close(4005, "not found"));
    expect(events.slice(2)).toEqual(["closed", "close 4005 not found"]);
    expect(taken()).toEqual([]);
  });

  test("by the peer is answered with its code, drops messages that wait, and is the last event", () => {
    const { socket, taken, events } = created({ credit: 0 });
    socket.sendBinary(new Uint8Array(9));
    socket.take(part(5));
    events.splice(0);
    socket.take(close(1000, "done"));
    expect(taken()).toEqual(["close 1000 done"]);
    expect(events).toEqual(["closed", "close 1000 done"]);
    expect([socket.bufferedBytes, socket.partialBytes]).toEqual([0, 0]);
    socket.sendBinary(new Uint8Array(1));
    socket.sendText("x");
    socket.close(1000, "");
    socket.terminateSoon();
    socket.lose(1001, "");
    socket.resume();
    vi.advanceTimersByTime(10 * goodbyeMs);
    expect(taken()).toEqual([]);
    expect(events).toHaveLength(2);
  });

  test("by the peer replaces this side's close that still waits for credit", () => {
    const { socket, taken, events } = created({ credit: 0 });
    socket.sendBinary(new Uint8Array(1));
    socket.close(4005, "not found");
    socket.take(close(1000));
    expect(taken()).toEqual(["close 1000 "]);
    expect(events).toEqual(["closed", "close 1000 "]);
  });

  test("is forced after a second if the peer does not answer", () => {
    const { socket, taken, events } = created({ credit: 0 });
    socket.sendBinary(new Uint8Array(1));
    socket.close(4008, "full");
    socket.terminateSoon();
    socket.terminateSoon();
    vi.advanceTimersByTime(goodbyeMs - 1);
    expect([taken(), events]).toEqual([[], []]);
    vi.advanceTimersByTime(1);
    expect(taken()).toEqual(["close 4008 full"]);
    expect(events).toEqual(["closed", "close 1006 "]);
    vi.advanceTimersByTime(10 * goodbyeMs);
    expect(events).toHaveLength(2);
  });

  test("has the code 1006 if it is forced and no code was given, and is not forced once the peer has closed", () => {
    const forced = created();
    forced.socket.terminateSoon();
    vi.advanceTimersByTime(goodbyeMs);
    expect(forced.taken()).toEqual(["close 1006 "]);
    const closed = created();
    closed.socket.terminateSoon();
    closed.socket.take(close(1000));
    expect(vi.getTimerCount()).toBe(0);
    expect(closed.events).toEqual(["closed", "close 1000 "]);
  });

  test("during the sending of a message cuts the message off, and is the last event", () => {
    const made = created({
      send: () => {
        sent += 1;
        if (sent === 2) {
          made.socket.lose(1001, "");
        }
      },
    });
    let sent = 0;
    made.socket.sendBinary(new Uint8Array(1_000));
    expect(sent).toBe(2);
    expect(made.socket.bufferedBytes).toBe(0);
    expect(made.events).toEqual(["closed", "close 1001 "]);
  });

  test("by the loss of its link sends nothing", () => {
    const { socket, taken, events } = created({ credit: 0 });
    socket.sendBinary(new Uint8Array(1));
    socket.close(1000, "");
    socket.lose(1001, "the relay went away");
    socket.lose(1001, "again");
    expect(taken()).toEqual([]);
    expect(events).toEqual(["closed", "close 1001 the relay went away"]);
    expect(socket.bufferedBytes).toBe(0);
  });
});
