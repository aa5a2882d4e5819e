// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { FrameSchema } from "@dm-env-rpc/protocol/relay";
import { type OpenedStream, openStream } from "@dm-env-rpc/transport";
import { relayPath, relaySubprotocol } from "@dm-env-rpc/transport/internal/relay";
import { expect, it, onTestFinished } from "vitest";
import { WebSocket as NodeWebSocket } from "ws";
import { gameToken, type ServedRelay, serving } from "../testing/relaying.ts";

/** A program that sends the frames that a test chooses. */
class RawProgram {
  readonly socket: WebSocket;
  readonly opened: Promise<void>;
  /** Resolves with the close code, and the message before it. */
  readonly closed: Promise<readonly [code: number, text: string]>;
  #text = "";

  constructor(relay: string) {
    this.socket = new WebSocket(relay + relayPath, relaySubprotocol);
    this.socket.binaryType = "arraybuffer";
    this.opened = new Promise((resolve) => {
      this.socket.onopen = () => resolve();
    });
    this.socket.onmessage = ({ data }) => {
      if (typeof data === "string") {
        this.#text = JSON.parse(data).message;
      }
    };
    this.closed = new Promise((resolve) => {
      this.socket.onclose = ({ code }) => resolve([code, this.#text]);
    });
  }

  send(stream: number, kind: MessageInitShape<typeof FrameSchema>["kind"]): void {
    const init = { stream, kind } as MessageInitShape<typeof FrameSchema>;
    this.socket.send(toBinary(FrameSchema, create(FrameSchema, init)));
  }

  hello(token = gameToken): void {
    const instance = new Uint8Array(16).fill(1);
    this.send(0, { case: "hello", value: { token, instance, windowBytes: 65_536 } });
  }
}

const invalid = 4003;

it.each<[string, (program: RawProgram) => void, number, RegExp]>([
  [
    "other bytes",
    ({ socket }) => socket.send(new Uint8Array(9).fill(255)),
    invalid,
    /9 other bytes/,
  ],
  [
    "a frame before hello",
    (program) => program.send(0, { case: "pong", value: {} }),
    invalid,
    /"hello" as the first/,
  ],
  [
    "a first frame of 17 KiB",
    ({ socket }) => socket.send(new Uint8Array(17 * 1024)),
    invalid,
    /introduction of at most/,
  ],
  ["a wrong token", (program) => program.hello("token-of-a-stranger"), 4016, /token of a program/],
  [
    "a tiny window",
    (program) => program.send(0, { case: "hello", value: { token: gameToken, windowBytes: 1 } }),
    invalid,
    /window_bytes/,
  ],
  [
    "a short instance",
    (program) =>
      program.send(0, { case: "hello", value: { token: gameToken, windowBytes: 65_536 } }),
    invalid,
    /16 random bytes/,
  ],
])("closes a program that begins with %s, with the reason", async (_what, act, code, reason) => {
  await using served = await serving();
  const program = new RawProgram(served.dial);
  await program.opened;
  act(program);
  const [closeCode, text] = await program.closed;
  expect(text).toMatch(reason);
  expect(closeCode).toBe(code);
});

const kib = (count: number): Uint8Array => new Uint8Array(count * 1024);

it.each<[string, (program: RawProgram) => void, RegExp]>([
  [
    "a frame of a stream that was never opened",
    (program) => program.send(9, { case: "message", value: kib(1) }),
    /a frame of stream 9/,
  ],
  ["a second hello", (program) => program.hello(), /"hello" as the first frame/],
  ["a ping", (program) => program.send(0, { case: "ping", value: {} }), /received "ping"/],
  ["an open frame", (program) => program.send(1, { case: "open", value: {} }), /received "open"/],
  ["a frame that is too large", ({ socket }) => socket.send(kib(129)), /at most 131072 bytes/],
  [
    "more than its credit",
    (program) => {
      for (let i = 0; i < 200; i++) {
        program.send(1, { case: "message", value: kib(64) });
      }
    },
    /bytes of credit/,
  ],
  [
    "credit beyond 32 bits",
    (program) => {
      program.send(1, { case: "credit", value: 2 ** 32 - 1 });
      program.send(1, { case: "credit", value: 2 ** 32 - 1 });
    },
    /credit of at most/,
  ],
])(
  "closes a program that sends %s, with the reason, and ends its agents' streams",
  async (_what, act, reason) => {
    await using served = await serving();
    const program = new RawProgram(served.dial);
    await program.opened;
    program.hello();
    await expect.poll(() => served.relay.programs()).toHaveLength(1);
    await using agent = await openStream(served.relay.programs()[0]?.address ?? "");
    const lost = new Promise<Error | undefined>((resolve) => {
      // A reader that has stopped grants no credit.
      agent.start({ onMessage: () => agent.pause(), onEnd() {}, onDrain() {}, onClose: resolve });
    });
    await expect.poll(() => served.relay.programs()[0]?.streams).toBe(1);
    act(program);
    const [code, text] = await program.closed;
    expect(text).toMatch(reason);
    expect(code).toBe(invalid);
    expect(await lost).toMatchObject({ code: "UNAVAILABLE" });
  },
);

it.each([
  ["malformed", [Uint8Array.of(0xff)]],
  ["slow to decode", Array.from({ length: 10 }, () => Buffer.alloc(64 * 1024, Buffer.of(0x70, 0)))],
])(
  "ends the stream of an agent in JSON whose answer is %s, and no other stream",
  async (_what, parts) => {
    await using served = await serving();
    const program = new RawProgram(served.dial);
    await program.opened;
    program.hello();
    await expect.poll(() => served.relay.programs()).toHaveLength(1);
    const address = served.relay.programs()[0]?.address ?? "";
    const session = connectHttp2(address);
    onTestFinished(() => session.destroy());
    const agent = session.request({
      ":method": "POST",
      ":path": "/dm_env_rpc.v1.Environment/Process",
      "content-type": "application/connect+json",
    });
    await expect.poll(() => served.relay.programs()[0]?.streams).toBe(1);
    await using other = await openStream(address);
    const received = new Promise((resolve) => {
      other.start({ onMessage: resolve, onEnd() {}, onDrain() {}, onClose() {} });
    });
    await expect.poll(() => served.relay.programs()[0]?.streams).toBe(2);
    for (const [index, value] of parts.entries()) {
      program.send(1, { case: index + 1 < parts.length ? "part" : "message", value });
    }
    let body = "";
    for await (const chunk of agent) {
      body += chunk;
    }
    expect(body).toContain('"code":"internal"');
    expect(body).toContain("agent in JSON or over HTTP/1.1");
    program.send(2, { case: "message", value: new Uint8Array(0) });
    await received;
  },
);

it("refuses an agent whose metadata is large", async () => {
  await using served = await serving();
  const program = new RawProgram(served.dial);
  await program.opened;
  program.hello();
  await expect.poll(() => served.relay.programs()).toHaveLength(1);
  const metadata = Object.fromEntries(["a", "b", "c"].map((name) => [name, "x".repeat(6_000)]));
  await using agent = await openStream(served.relay.programs()[0]?.address ?? "", { metadata });
  const lost = new Promise((resolve) => {
    agent.start({ onMessage() {}, onEnd() {}, onDrain() {}, onClose: resolve });
  });
  expect(await lost).toMatchObject({ code: "INVALID_ARGUMENT" });
  expect(served.relay.programs()[0]?.streams).toBe(0);
});

it("closes a program that does not introduce itself", async () => {
  await using served = await serving({ limits: { helloMs: 100 } });
  const program = new RawProgram(served.dial);
  const [code, text] = await program.closed;
  expect([code, text]).toEqual([4004, expect.stringContaining("limit: helloMs")]);
});

it("refuses a page of another origin", async () => {
  await using served = await serving({ allowedOrigins: ["https://play.example.org"] });
  const closeOf = async (origin: string): Promise<unknown> => {
    const socket = new NodeWebSocket(served.dial + relayPath, relaySubprotocol, { origin });
    socket.on("open", () => socket.send("not a frame", { binary: true }));
    const [code] = await once(socket, "close");
    return code;
  };
  expect(await closeOf("https://elsewhere.example.org")).toBe(4007);
  expect(await closeOf("https://play.example.org")).toBe(invalid);
});

/** A program that reads nothing after it has been accepted. */
async function deafProgram({ dial }: ServedRelay): Promise<NodeWebSocket> {
  const socket = new NodeWebSocket(dial + relayPath, relaySubprotocol);
  socket.on("error", () => {}); // The relay may close the connection.
  onTestFinished(() => socket.terminate());
  await once(socket, "open");
  const value = { token: gameToken, instance: new Uint8Array(16), windowBytes: 256 * 1024 };
  socket.send(toBinary(FrameSchema, create(FrameSchema, { kind: { case: "hello", value } })));
  await once(socket, "message");
  socket.pause();
  return socket;
}

function send200Kb(agent: OpenedStream): void {
  agent.start({ onMessage() {}, onEnd() {}, onDrain() {}, onClose() {} });
  const data = new Uint8Array(200_000);
  agent.send({
    case: "step",
    value: {
      actions: [{ uid: 1, tensor: { dtype: "uint8", shape: [data.length], data } }],
      requestedObservations: [],
    },
  });
}

const isLost = ({ events }: ServedRelay): boolean =>
  events.some(({ kind }) => kind === "program-lost");

const lostFor = (reason: string): unknown =>
  expect.objectContaining({
    kind: "program-lost",
    error: expect.objectContaining({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringContaining(reason),
    }),
  });

it("closes a program that does not read its agents' streams, by maxUnsentBytesPerProgram", async () => {
  await using served = await serving({ limits: { maxUnsentBytesPerProgram: 300_000 } });
  await deafProgram(served);
  const address = served.relay.programs()[0]?.address ?? "";
  // The sockets of the operating system buffer some megabytes, too.
  const agents = await Promise.all(Array.from({ length: 150 }, () => openStream(address)));
  await expect.poll(() => served.relay.programs()[0]?.streams).toBe(agents.length);
  for (const agent of agents) {
    send200Kb(agent);
  }
  await expect.poll(() => isLost(served)).toBe(true);
  await Promise.all(agents.map((agent) => agent.close()));
  expect(served.events).toContainEqual(lostFor("does not read"));
});

it("closes a program that does not read its agents' streams, by maxBufferedBytes", async () => {
  await using served = await serving({ limits: { maxBufferedBytes: 2_000_000 } });
  await deafProgram(served);
  const address = served.relay.programs()[0]?.address ?? "";
  let sent = 0;
  while (!isLost(served)) {
    await using agent = await openStream(address);
    send200Kb(agent);
    sent += 200_000;
    await expect.poll(() => isLost(served) || served.relay.programs()[0]?.streams).toBeTruthy();
  }
  expect(sent).toBeLessThan(100_000_000);
  expect(served.events).toContainEqual(lostFor("limit: maxBufferedBytes)"));
});

it("refuses further agents of a program that does not read, and keeps the program", async () => {
  await using served = await serving({ limits: { maxUnsentBytesPerProgram: 2_000_000 } });
  await deafProgram(served);
  const address = served.relay.programs()[0]?.address ?? "";
  const streams = (): number | undefined => served.relay.programs()[0]?.streams;
  const metadata = { a: "x".repeat(15_000) };
  let refused: Error | undefined;
  while (refused === undefined) {
    await using agent = await openStream(address, { metadata });
    let isOver = false;
    agent.start({
      onMessage() {},
      onEnd() {},
      onDrain() {},
      onClose: (error) => {
        refused ??= isOver ? undefined : error;
      },
    });
    await expect.poll(() => refused ?? streams(), { interval: 1 }).toBeTruthy();
    isOver = true;
    await agent.close();
    await expect.poll(streams, { interval: 1 }).toBe(0);
  }
  expect(refused).toMatchObject({
    code: "RESOURCE_EXHAUSTED",
    message: expect.stringContaining("reads too slowly"),
  });
  expect(served.relay.programs()[0]?.isConnected).toBe(true);
});
