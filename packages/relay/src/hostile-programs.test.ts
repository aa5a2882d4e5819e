// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { FrameSchema } from "@dm-env-rpc/protocol/relay";
import { openStream } from "@dm-env-rpc/transport";
import { relayPath, relaySubprotocol } from "@dm-env-rpc/transport/internal/relay";
import { expect, it } from "vitest";
import { WebSocket as NodeWebSocket } from "ws";
import { gameToken, serving } from "../testing/relaying.ts";

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

it.each([
  [{ maxUnsentBytesPerProgram: 300_000 }, "does not read"],
  [{ maxBufferedBytes: 2_000_000 }, "limit: maxBufferedBytes)"],
])("closes a program that does not read its agents' streams, with %j", async (limits, reason) => {
  await using served = await serving({ limits });
  const socket = new NodeWebSocket(served.dial + relayPath, relaySubprotocol);
  socket.on("error", () => {}); // The relay closes the connection.
  await once(socket, "open");
  const value = { token: gameToken, instance: new Uint8Array(16), windowBytes: 256 * 1024 };
  socket.send(toBinary(FrameSchema, create(FrameSchema, { kind: { case: "hello", value } })));
  await once(socket, "message");
  socket.pause();
  const address = served.relay.programs()[0]?.address ?? "";
  const lost = (): boolean => served.events.some(({ kind }) => kind === "program-lost");
  const data = new Uint8Array(200_000);
  let sent = 0;
  while (!lost()) {
    await using agent = await openStream(address);
    agent.start({ onMessage() {}, onEnd() {}, onDrain() {}, onClose() {} });
    agent.send({
      case: "step",
      value: {
        actions: [{ uid: 1, tensor: { dtype: "uint8", shape: [data.length], data } }],
        requestedObservations: [],
      },
    });
    sent += data.length;
    await expect.poll(() => lost() || served.relay.programs()[0]?.streams).toBeTruthy();
  }
  // The sockets of the operating system buffer some megabytes, too.
  expect(sent).toBeLessThan(100_000_000);
  expect(served.events).toContainEqual(
    expect.objectContaining({
      kind: "program-lost",
      error: expect.objectContaining({
        code: "RESOURCE_EXHAUSTED",
        message: expect.stringContaining(reason),
      }),
    }),
  );
});
