// SPDX-License-Identifier: Apache-2.0
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { type Frame, FrameSchema } from "@dm-env-rpc/protocol/relay";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { describe, expect, test } from "vitest";
import {
  type Encoder,
  encoded,
  type Socket,
  type SocketEvents,
} from "../websocket/websocket-stream.ts";
import { Link, type LinkOptions, maxFrameBytes } from "./link.ts";
import type { FrameContent } from "./linked-socket.ts";

/** Minimum credit that a peer must grant. */
const minWindow = 65_536;

/** The WebSocket of a link, whose other end is the test. */
class TestSocket implements Socket {
  readonly frames: Frame[] = [];
  readonly texts: string[] = [];
  closedWith: readonly [code: number, reason: string] | undefined;
  isTerminated = false;
  bufferedBytes = 0;
  readonly partialBytes = 0;
  #events: SocketEvents | undefined;

  get events(): SocketEvents {
    if (this.#events === undefined) {
      throw new Error("the link has not started its WebSocket");
    }
    return this.#events;
  }

  start(events: SocketEvents): void {
    this.#events = events;
  }

  sendBinary(bytes: Uint8Array<ArrayBuffer>): void {
    this.frames.push(fromBinary(FrameSchema, bytes));
  }

  sendMessage<T>(message: T, encoder: Encoder<T>): void {
    this.sendBinary(encoded(message, encoder));
  }

  sendText(text: string): void {
    this.texts.push(text);
  }

  pause(): void {}

  resume(): void {}

  close(code: number, reason: string): void {
    this.closedWith = [code, reason];
  }

  terminateSoon(): void {
    this.isTerminated = true;
  }

  later(task: () => void): void {
    setImmediate(task);
  }

  /** Delivers a frame from the peer. */
  deliver(stream: number, kind?: FrameContent): void {
    const frame = create(FrameSchema, kind === undefined ? { stream } : { stream, kind });
    this.deliverBytes(toBinary(FrameSchema, frame));
  }

  deliverBytes(bytes: Uint8Array): void {
    this.events.onBinary(bytes, 0, bytes.length);
  }

  /** The frames that the link has sent since the last call, as the stream and the kind of each. */
  taken(): readonly (readonly [stream: number, kind: string | undefined])[] {
    return this.frames.splice(0).map(({ stream, kind }) => [stream, kind.case]);
  }
}

type Side = LinkOptions["side"];

const sides = ["relay", "program"] as const;

/** Creates a link whose peer has sent nothing yet. */
function unintroduced(side: Side, options: Partial<LinkOptions> = {}) {
  const socket = new TestSocket();
  const events: string[] = [];
  const streams: Socket[] = [];
  const closed: DmEnvRpcError[] = [];
  const link = new Link({
    socket,
    side,
    peerName: "the peer",
    maxMessageBytes: 1_000_000,
    onHello: ({ token }) => events.push(`hello ${token}`),
    onWelcome: ({ program }) => events.push(`welcome ${program}`),
    onOpen: ({ peerAddress }, stream) => {
      events.push(`open ${peerAddress}`);
      streams.push(stream);
    },
    onActivity: () => events.push("activity"),
    onClose: (error) => {
      events.push("close");
      closed.push(error);
    },
    ...options,
  });
  return { link, socket, events, streams, closed };
}

/** Creates a link whose peer has introduced itself. */
function introduced(side: Side, options: Partial<LinkOptions> = {}) {
  const made = unintroduced(side, options);
  made.socket.deliver(0, side === "relay" ? hello() : welcome());
  made.events.splice(0);
  return made;
}

function hello(windowBytes = minWindow): FrameContent {
  return { case: "hello", value: { token: "secret", windowBytes } };
}

function welcome(windowBytes = minWindow): FrameContent {
  return { case: "welcome", value: { program: "game", windowBytes } };
}

function bytes(count: number): FrameContent {
  return { case: "message", value: new Uint8Array(count) };
}

const open: FrameContent = { case: "open", value: { peerAddress: "agent" } };

/** A frame of each kind; undefined is a frame of a kind that this version does not know. */
const kinds: Readonly<Record<string, FrameContent | undefined>> = {
  hello: hello(),
  welcome: welcome(),
  open,
  message: bytes(1),
  part: { case: "part", value: new Uint8Array(1) },
  text: { case: "text", value: "end" },
  close: { case: "close", value: { code: 1000 } },
  credit: { case: "credit", value: 1 },
  ping: { case: "ping", value: {} },
  pong: { case: "pong", value: {} },
  unknown: undefined,
};

/** Records the events of a stream. */
function listen(stream: Socket | undefined): string[] {
  const events: string[] = [];
  stream?.start({
    onBinary: (_source, start, end) => events.push(`binary ${end - start}`),
    onText: (text) => events.push(`text ${text}`),
    onDrain: () => events.push("drain"),
    onPartial: () => {},
    onRefusal: () => events.push("refused"),
    onTooLarge: () => events.push("too large"),
    onClose: (code, reason) => events.push(`close ${code} ${reason}`),
  });
  return events;
}

/** Expects that a link was closed because its peer broke the protocol. */
function expectViolation({ socket, closed }: ReturnType<typeof unintroduced>, text: string): void {
  expect(closed).toHaveLength(1);
  expect(closed[0]).toMatchObject({
    code: "INVALID_ARGUMENT",
    message: expect.stringMatching(/^broken relay protocol: expected .*, received .*; check/),
  });
  expect(closed[0]?.message).toContain(text);
  expect(socket.closedWith?.[0]).toBe(4003);
  expect(JSON.parse(socket.texts.at(-1) ?? "{}")).toEqual({ code: 3, message: closed[0]?.message });
  expect(socket.isTerminated).toBe(true);
}

describe("the introduction of a link", () => {
  test("is a hello to the relay, and a welcome to the program", () => {
    const relay = unintroduced("relay");
    relay.socket.deliver(0, hello());
    expect(relay.events).toEqual(["activity", "hello secret"]);
    const program = unintroduced("program");
    program.socket.deliver(0, welcome());
    expect(program.events).toEqual(["activity", "welcome game"]);
    expect([...relay.closed, ...program.closed]).toEqual([]);
  });

  test("grants the peer 256 KiB of credit for each stream", () => {
    const program = unintroduced("program");
    program.link.hello({ token: "secret", instance: new Uint8Array(16) });
    const relay = unintroduced("relay");
    relay.link.welcome({ program: "game", address: "http://relay:9000", pingIntervalMs: 5_000 });
    expect(program.socket.frames).toMatchObject([
      { stream: 0, kind: { case: "hello", value: { token: "secret", windowBytes: 262_144 } } },
    ]);
    expect(relay.socket.frames).toMatchObject([
      {
        stream: 0,
        kind: {
          case: "welcome",
          value: {
            program: "game",
            address: "http://relay:9000",
            pingIntervalMs: 5_000,
            windowBytes: 262_144,
          },
        },
      },
    ]);
  });

  test.each(sides)("is the first frame that the %s accepts", (side) => {
    const own = side === "relay" ? "hello" : "welcome";
    for (const [name, kind] of Object.entries(kinds)) {
      if (name !== own) {
        const made = unintroduced(side);
        made.socket.deliver(0, kind);
        expectViolation(made, `expected one "${own}" as the first frame`);
        expect(made.events).toEqual(["activity", "close"]);
      }
    }
  });

  test.each(sides)("comes before every stream of the %s", (side) => {
    const made = unintroduced(side);
    expect(made.link.open({})).toBeUndefined();
    made.socket.deliver(1, open);
    expectViolation(made, "a frame of stream 1");
    expect(made.streams).toEqual([]);
  });

  test.each(sides)("is accepted once by the %s", (side) => {
    const made = introduced(side);
    made.socket.deliver(0, side === "relay" ? hello() : welcome());
    expectViolation(
      made,
      `as the first frame, received "${side === "relay" ? "hello" : "welcome"}"`,
    );
  });

  test.each(sides)("must grant the %s at least 64 KiB of credit", (side) => {
    const introduction = side === "relay" ? hello : welcome;
    const refused = unintroduced(side);
    refused.socket.deliver(0, introduction(minWindow - 1));
    expectViolation(refused, "expected window_bytes of at least 65536, received 65535");
    expect(refused.events).toEqual(["activity", "close"]);
    const accepted = unintroduced(side);
    accepted.socket.deliver(0, introduction(minWindow));
    expect(accepted.closed).toEqual([]);
  });
});

describe("frames of a link itself", () => {
  test("are pings, which a program answers, and pongs, which a relay accepts", () => {
    const program = introduced("program");
    program.socket.deliver(0, { case: "ping", value: {} });
    expect(program.socket.taken()).toEqual([[0, "pong"]]);
    const relay = introduced("relay");
    relay.link.ping();
    relay.socket.deliver(0, { case: "pong", value: {} });
    expect(relay.socket.taken()).toEqual([[0, "ping"]]);
    expect([...program.closed, ...relay.closed]).toEqual([]);
    expect([...program.events, ...relay.events]).toEqual(["activity", "activity"]);
  });

  test.each(sides)("are of no other kind on the side of the %s", (side) => {
    const allowed = ["hello", "welcome", side === "relay" ? "pong" : "ping"];
    for (const [name, kind] of Object.entries(kinds)) {
      if (!allowed.includes(name)) {
        const made = introduced(side);
        made.socket.deliver(0, kind);
        const received = name === "unknown" ? "a frame without a kind" : `"${name}"`;
        expectViolation(
          made,
          `a frame kind that the protocol defines for the connection, received ${received}`,
        );
      }
    }
    const other = introduced(side);
    other.socket.deliver(0, side === "relay" ? welcome() : hello());
    expectViolation(other, "for the connection");
  });

  test("are decodable, at most 128 KiB, and not in thousands of fragments", () => {
    const malformed = introduced("relay");
    malformed.socket.deliverBytes(new Uint8Array(9).fill(255));
    expectViolation(malformed, "a relay.v1.Frame in each binary message, received 9 other bytes");
    expect(malformed.events).toEqual(["close"]);
    const tooLarge = introduced("relay");
    tooLarge.socket.events.onTooLarge();
    expectViolation(tooLarge, `a frame of at most ${maxFrameBytes} bytes`);
    expect(maxFrameBytes).toBe(131_072);
    const fragmented = introduced("relay");
    fragmented.socket.events.onTooManyPieces?.();
    expectViolation(fragmented, "at most 16384 fragments per message");
  });

  test("are decoded from their own part of the received bytes", () => {
    const { socket, events } = unintroduced("relay");
    const frame = toBinary(FrameSchema, create(FrameSchema, { stream: 0, kind: hello() }));
    const source = new Uint8Array(frame.length + 20).fill(255);
    source.set(frame, 10);
    socket.events.onBinary(source, 10, 10 + frame.length);
    expect(events).toEqual(["activity", "hello secret"]);
  });
});

describe("streams of a link", () => {
  test("are opened by the relay with new numbers, and counted while they are open", () => {
    const { link, socket } = introduced("relay");
    const first = listen(link.open({ peerAddress: "one", metadata: { a: "b" } }));
    link.open({ peerAddress: "two" });
    expect(link.streams).toBe(2);
    expect(socket.frames).toMatchObject([
      { stream: 1, kind: { case: "open", value: { peerAddress: "one", metadata: { a: "b" } } } },
      { stream: 2, kind: { case: "open", value: { peerAddress: "two" } } },
    ]);
    socket.deliver(1, { case: "close", value: { code: 1000, reason: "done" } });
    expect(first).toEqual(["close 1000 done"]);
    expect(link.streams).toBe(1);
    link.open({ peerAddress: "three" });
    expect(socket.taken().slice(2)).toEqual([
      [1, "close"],
      [3, "open"],
    ]);
  });

  test("are accepted by the program, each with a higher number than the previous stream", () => {
    const { socket, events, streams, link, closed } = introduced("program");
    socket.deliver(3, open);
    socket.deliver(7, open);
    expect(events.filter((event) => event !== "activity")).toEqual(["open agent", "open agent"]);
    expect([streams.length, link.streams]).toEqual([2, 2]);
    expect(closed).toEqual([]);
    for (const number of [7, 6, 3]) {
      const made = introduced("program");
      made.socket.deliver(7, open);
      made.socket.deliver(number, open);
      expectViolation(made, `a stream number above 7, received ${number}`);
      expect(made.streams).toHaveLength(1);
    }
  });

  test("can no longer be opened once the highest stream number is used", () => {
    const { link, socket, closed } = introduced("program");
    socket.deliver(2 ** 32 - 2, open);
    expect(link.open({})).toBeDefined();
    expect(link.open({})).toBeUndefined();
    expect(socket.taken()).toEqual([[2 ** 32 - 1, "open"]]);
    expect(closed).toEqual([]);
  });

  test("are not opened by programs", () => {
    const made = introduced("relay");
    made.socket.deliver(1, open);
    expectViolation(made, "frames of streams that were opened, received a frame of stream 1");
  });

  test("start with the credit of the peer's introduction, each with credit of its own", () => {
    const { link, socket } = introduced("relay");
    const [first, second] = [link.open({}), link.open({})];
    const [one, two] = [listen(first), listen(second)];
    socket.taken();
    first?.sendBinary(new Uint8Array(minWindow));
    expect(first?.bufferedBytes).toBeGreaterThan(0);
    second?.sendBinary(new Uint8Array(1_000));
    expect(second?.bufferedBytes).toBe(0);
    expect(socket.taken()).toEqual([
      [1, "part"],
      [2, "message"],
    ]);
    socket.deliver(1, { case: "credit", value: 1_000 });
    expect(socket.taken()).toEqual([[1, "message"]]);
    expect([one, two]).toEqual([["drain", "drain"], ["drain"]]);
  });

  test("receive the frames with their number", () => {
    const { link, socket } = introduced("relay");
    const [one, two] = [listen(link.open({})), listen(link.open({}))];
    socket.deliver(2, bytes(5));
    socket.deliver(1, { case: "text", value: "{}" });
    expect([one, two]).toEqual([["text {}"], ["binary 5"]]);
  });

  test("ignore frames that were in transit when the stream was closed, except as signs of life of the peer", () => {
    const { link, socket, events, closed } = introduced("relay");
    const stream = link.open({});
    const own = listen(stream);
    socket.deliver(1, { case: "close", value: { code: 1000 } });
    events.splice(0);
    for (const name of ["message", "part", "text", "credit", "close", "unknown"]) {
      socket.deliver(1, kinds[name]);
    }
    expect(events).toEqual(Array.from({ length: 6 }, () => "activity"));
    expect(own).toEqual(["close 1000 "]);
    expect(closed).toEqual([]);
  });

  test.each(sides)("accept frames of no other kind on the side of the %s", (side) => {
    for (const name of ["hello", "welcome", "ping", "pong", "unknown"]) {
      const made = introduced(side);
      if (side === "relay") {
        made.link.open({});
      } else {
        made.socket.deliver(1, open);
      }
      made.socket.deliver(1, kinds[name]);
      const received = name === "unknown" ? "a frame without a kind" : `"${name}"`;
      expectViolation(
        made,
        `a frame kind that the protocol defines for a stream, received ${received}`,
      );
    }
  });

  test("close the link, and with it all other streams, if a frame breaks the protocol", () => {
    const made = introduced("relay");
    const [one, two] = [listen(made.link.open({})), listen(made.link.open({}))];
    made.socket.deliver(1, { case: "credit", value: 2 ** 32 - 1 });
    expectViolation(made, "credit of at most 4294967295 bytes, received more");
    for (const events of [one, two]) {
      expect(events).toEqual([expect.stringMatching(/^close 1001 broken relay protocol/)]);
    }
    expect(made.link.streams).toBe(0);
    expect(made.events.at(-1)).toBe("close");
  });

  test("report a message above the limit as too large", () => {
    const { link, socket } = introduced("relay", { maxMessageBytes: 10 });
    const events = listen(link.open({}));
    socket.deliver(1, bytes(10));
    socket.deliver(1, bytes(11));
    expect(events).toEqual(["binary 10", "too large"]);
  });
});

describe("a peer that does not read", () => {
  test("fails the link once the bytes that wait exceed the limit", () => {
    const made = introduced("relay", { maxUnsentBytes: 1_000 });
    const stream = made.link.open({});
    const events = listen(stream);
    made.socket.bufferedBytes = 1_000;
    stream?.sendBinary(new Uint8Array(1));
    expect(made.closed).toEqual([]);
    made.socket.bufferedBytes = 1_001;
    stream?.sendBinary(new Uint8Array(1));
    expect(made.closed).toMatchObject([
      {
        code: "RESOURCE_EXHAUSTED",
        message: "the peer does not read: more than 1000 bytes wait for it",
      },
    ]);
    expect(made.socket.closedWith?.[0]).toBe(4008);
    expect(made.socket.taken().map(([, kind]) => kind)).toEqual(["open", "message"]);
    expect(events).toEqual(["drain", expect.stringMatching(/^close 1001 the peer does not read/)]);
    expect(stream?.bufferedBytes).toBe(0);
  });

  test("receives no stream if sending the stream's open frame closes the link", () => {
    const { link, socket, closed } = introduced("relay", { maxUnsentBytes: 1_000 });
    socket.bufferedBytes = 1_001;
    expect(link.open({})).toBeUndefined();
    expect(link.streams).toBe(0);
    expect(closed).toHaveLength(1);
  });

  test("may let any number of bytes wait if no limit is set", () => {
    const { link, socket, closed } = introduced("program");
    socket.bufferedBytes = Number.MAX_SAFE_INTEGER;
    link.hello({});
    expect(closed).toEqual([]);
  });
});

describe("the end of a link", () => {
  const gone = new DmEnvRpcError("UNAVAILABLE", "the relay is shutting down");

  test("sends the error to the peer, ends each stream, and is the last event", () => {
    const { link, socket, events, closed } = introduced("relay");
    const stream = link.open({});
    const own = listen(stream);
    socket.taken();
    link.close(gone);
    expect(socket.texts.map((text) => JSON.parse(text))).toEqual([
      { code: 14, message: gone.message },
    ]);
    expect(socket.closedWith).toEqual([4014, gone.message]);
    expect(socket.isTerminated).toBe(true);
    expect(closed).toEqual([gone]);
    expect(own).toEqual([`close 1001 ${gone.message}`]);

    link.close(new DmEnvRpcError("INTERNAL", "another"));
    link.ping();
    link.welcome({});
    stream?.sendBinary(new Uint8Array(1));
    stream?.close(1000, "");
    expect(link.open({})).toBeUndefined();
    socket.deliver(0, { case: "pong", value: {} });
    socket.deliver(1, bytes(1));
    socket.events.onClose(1000, "");
    expect(socket.taken()).toEqual([]);
    expect(socket.texts).toHaveLength(1);
    expect(own).toHaveLength(1);
    expect(events).toEqual(["close"]);
    expect(link.streams).toBe(0);
  });

  test("by the peer has the peer's own explanation", () => {
    const { socket, closed, link } = introduced("program");
    socket.deliver(1, open);
    socket.events.onText("not an explanation");
    socket.events.onText(JSON.stringify({ code: 10, message: "the program has connected again" }));
    socket.events.onClose(4010, "the program has");
    expect(closed).toMatchObject([
      { code: "ABORTED", message: "the program has connected again", origin: "server" },
    ]);
    expect(link.streams).toBe(0);
    expect(socket.closedWith).toBeUndefined();
  });

  test.each([
    ["relay", 4016, "no", { code: "UNAUTHENTICATED", message: "no", origin: "client" }],
    ["program", 4016, "no", { code: "UNAUTHENTICATED", message: "no", origin: "server" }],
    ["relay", 1000, "", { code: "UNAVAILABLE", message: "the peer closed the connection" }],
    ["relay", 1001, "", { code: "UNAVAILABLE", message: expect.stringContaining("went away") }],
    ["program", 1006, "", { code: "UNAVAILABLE", message: expect.stringContaining("was lost") }],
  ] as const)(
    "of the %s with the code %d and the reason %j has a clear error",
    (side, code, reason, error) => {
      const { socket, closed } = introduced(side);
      socket.events.onClose(code, reason);
      expect(closed).toMatchObject([
        "origin" in error ? error : { ...error, origin: "connection" },
      ]);
    },
  );

  test("within the handler of an opened stream leaves no stream open", () => {
    const made = introduced("program", {
      onOpen: () => made.link.close(gone),
    });
    made.socket.deliver(1, open);
    made.socket.deliver(2, open);
    expect(made.closed).toEqual([gone]);
    expect(made.link.streams).toBe(0);
  });
});
