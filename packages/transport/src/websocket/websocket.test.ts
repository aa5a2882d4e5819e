// SPDX-License-Identifier: Apache-2.0

import { once } from "node:events";
import { type AddressInfo, connect as connectTcp, type Socket } from "node:net";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { statusCodes } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import { describe, expect, onTestFinished, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import type { WebSocketRoute } from "../listen/listen-options.ts";
import { openStream } from "../open/open-stream.ts";
import { processPath } from "../stream/process-path.ts";
import { authority, serverPair } from "../testing/certificates.ts";
import { reachableArrayBuffers } from "../testing/memory.ts";
import { answered, answerOf, named, nameOf, stepRequest } from "../testing/messages.ts";
import { bytesOf } from "../testing/raw-call.ts";
import { type Recorder, record } from "../testing/recorder.ts";
import { echo, type Serving, serving } from "../testing/serving.ts";
import { slowChecks } from "../testing/slow-checks.ts";
import { endMessage, offeredProtocols, subprotocol } from "./protocol.ts";

/** A closed WebSocket of a test. */
interface Closed {
  readonly code: number;
  readonly reason: string;
  /** Text messages before the close. */
  readonly texts: readonly string[];
}

/** Writes a binary message of a client as one frame, with a mask of zeros. */
function maskedFrame(body: Uint8Array): Buffer {
  const header = Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
  header.writeUInt32BE(body.length, 6);
  return Buffer.concat([header, body]);
}

/** Sends a binary message in several frames. */
function sendInFrames(socket: WebSocket, message: Uint8Array, frames: number): void {
  const size = Math.ceil(message.length / frames);
  for (let frame = 1; frame <= frames; frame++) {
    socket.send(message.subarray((frame - 1) * size, frame * size), { fin: frame === frames });
  }
}

/** Writes the first fragments of a binary message, each of `size` bytes, with a mask of zeros. */
function fragments(count: number, size: number): Buffer {
  const header = size < 126 ? [0x80 + size] : [0xfe, size >> 8, size & 0xff];
  const frame = Buffer.from([0, ...header, 0, 0, 0, 0, ...Array<number>(size).fill(0)]);
  const frames = Buffer.alloc(count * frame.length, frame);
  frames[0] = 2; // Binary; the others continue it.
  return frames;
}

/** A WebSocket that sends whatever the test passes. */
interface Bare {
  readonly socket: WebSocket;
  readonly open: Promise<void>;
  /** Its network connection, for frames that the library does not write. */
  readonly network: Promise<Socket>;
  readonly closed: Promise<Closed>;
}

/** Opens a bare WebSocket that sends whatever the test passes. */
function bare(
  server: Serving,
  {
    protocols = [subprotocol],
    headers = {},
  }: { protocols?: string[] | undefined; headers?: Record<string, string> | undefined } = {},
): Bare {
  const socket = new WebSocket(`ws://${server.address}${processPath}`, protocols, { headers });
  const texts: string[] = [];
  socket.on("message", (data, isBinary) => {
    if (!isBinary) {
      texts.push(String(data));
    }
  });
  return {
    socket,
    open: new Promise((resolve) => socket.once("open", () => resolve())),
    network: new Promise((resolve) =>
      socket.once("upgrade", (response) => resolve(response.socket)),
    ),
    closed: new Promise((resolve, reject) => {
      socket.once("close", (code, reason) => resolve({ code, reason: String(reason), texts }));
      socket.once("error", reject);
    }),
  };
}

describe("the close of a WebSocket", () => {
  test("a call that the server aborts reports the error's whole message before the close", async () => {
    await using server = await serving();
    const { closed } = bare(server);
    const stream = await server.next();
    record(stream);
    const message = "é".repeat(1_000);
    stream.abort(new DmEnvRpcError("NOT_FOUND", message));
    const { code, reason, texts } = await closed;
    expect(code).toBe(4000 + statusCodes.NOT_FOUND);
    expect(message.startsWith(reason)).toBe(true);
    expect(Buffer.byteLength(reason)).toBeLessThanOrEqual(123);
    expect(texts).toEqual([JSON.stringify({ code: statusCodes.NOT_FOUND, message })]);
  });

  test("an unknown text message ends the stream with an error that names the known text", async () => {
    await using server = await serving();
    const { socket, open, closed } = bare(server);
    const served = record(await server.next());
    await open;
    socket.send('{"createWorld":{}}');
    const { code, texts } = await closed;
    expect(code).toBe(4000 + statusCodes.INVALID_ARGUMENT);
    expect(texts.join()).toContain('expected \\"end\\"');
    expect(await served.closed).toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("a client that closes because a response was too large for it is answered", {
    timeout: 15_000,
  }, async () => {
    await using server = await serving();
    const { socket, open, closed } = bare(server);
    const served = record(await server.next());
    await open;
    socket.close(1009, "too big");
    expect(await served.closed).toBeInstanceOf(DmEnvRpcError);
    expect((await closed).code).toBe(1009);
  });

  test("a server that ends the call while its stream is paused reads the client's close", {
    timeout: 15_000,
  }, async () => {
    await using server = await serving();
    const { socket, open, closed } = bare(server);
    const stream = await server.next();
    const served = record(stream, { onMessage: () => stream.pause() });
    await open;
    for (let i = 0; i < 4; i++) {
      socket.send(bytesOf(stepRequest(50_000)));
    }
    await served.seen("message");
    await expect.poll(() => server.listener.bufferedBytes).toBeGreaterThan(64 * 1024);
    stream.end(new DmEnvRpcError("NOT_FOUND", "gone"));
    expect((await closed).code).toBe(4000 + statusCodes.NOT_FOUND);
    await served.closed;
  });

  test("a frame above 2^53 bytes is refused like any other that is too large", async () => {
    await using server = await serving();
    const client = new WebSocket(`ws://${server.address}${processPath}`, [subprotocol]);
    const closed = once(client, "close");
    const [response] = await once(client, "upgrade");
    const stream = await server.next();
    const served = record(stream);
    response.socket.write(Buffer.from("82ff002000000000000000000000", "hex"));
    await served.seen("end");
    stream.end();
    expect((await closed)[0]).toBe(4000 + statusCodes.RESOURCE_EXHAUSTED);
  });

  test("a peer that breaks the protocol and leaves its side open is cut", {
    timeout: 15_000,
  }, async () => {
    await using server = await serving();
    const socket = connectTcp({
      port: server.listener.port,
      host: "127.0.0.1",
      allowHalfOpen: true,
    });
    socket.write(
      `GET ${processPath} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: ${subprotocol}\r\n\r\n`,
    );
    socket.resume();
    const served = record(await server.next());
    socket.write(Buffer.of(0xf2, 0x80, 0, 0, 0, 0)); // Reserved bits are set.
    expect(await served.closed).toMatchObject({ code: "UNAVAILABLE" });
    socket.destroy();
  });

  test("a message after the client has ended its side ends the stream with an error", async () => {
    await using server = await serving();
    const { socket, open, closed } = bare(server);
    record(await server.next());
    await open;
    socket.send("end");
    socket.send(bytesOf(named("late")));
    expect((await closed).code).toBe(4000 + statusCodes.FAILED_PRECONDITION);
  });

  test("a close before the client has ended its side is an error at the server, not an end", async () => {
    await using server = await serving();
    const { socket, open } = bare(server);
    const served = record(await server.next());
    await open;
    socket.send(bytesOf(named("a")));
    socket.close(1000);
    expect(await served.closed).toMatchObject({ code: "CANCELLED" });
    expect(served.events).not.toContain("end");
  });

  test("behaviour 8: a killed client is a lost connection", async () => {
    await using server = await serving();
    const { socket, open, closed } = bare(server);
    const served = record(await server.next());
    await open;
    closed.catch(() => {});
    socket.terminate();
    expect(await served.closed).toMatchObject({ code: "UNAVAILABLE" });
  });

  test("a request above maxWebSocketRequestBytes is refused by its name, and a response may be larger", async () => {
    await using server = await serving({ maxWebSocketRequestBytes: 1_000 });
    await using stream = await openStream(`ws://${server.address}`);
    const client = record(stream);
    const served = await server.next();
    const reader = record(served);
    served.send(answered("r".repeat(10_000)));
    await client.seen("message");
    stream.send(stepRequest(2_000));
    await reader.seen("end");
    served.end();
    expect(await client.closed).toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringContaining("(limit: maxWebSocketRequestBytes)"),
    });
  });

  test("a client whose message was too large receives the responses to earlier messages, however late", async () => {
    await using server = await serving({ maxMessageBytes: 1_000, pingIntervalMs: 10 });
    await using stream = await openStream(`ws://${server.address}`);
    const client = record(stream);
    const served = await server.next();
    const reader = record(served);
    stream.send(stepRequest(1_000_000));
    await reader.seen("end");
    // The client's pongs wait unread behind the message, so a second WebSocket counts the rounds of pings.
    const { socket } = bare(server);
    record(await server.next());
    for (let rounds = 0; rounds < 5; rounds++) {
      await once(socket, "ping");
    }
    served.send(answered("late"));
    served.end();
    expect(await client.closed).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    expect(client.messages.map(answerOf)).toEqual(["late"]);
    socket.terminate();
  });

  test("behaviour 8: a client that disconnects while its message is refused is a lost connection", async () => {
    await using server = await serving({ maxMessageBytes: 1_000 });
    const { socket, open, closed } = bare(server);
    const served = record(await server.next());
    await open;
    closed.catch(() => {});
    socket.send(Buffer.alloc(100_000));
    await served.seen("end");
    socket.terminate();
    expect(await served.closed).toMatchObject({ code: "UNAVAILABLE" });
  });
});

describe("the origin check of a WebSocket", () => {
  const own = (server: Serving): string => `http://${server.address}`;

  test.each([
    ["accepts", "a client that is not a page", () => undefined, true],
    ["accepts", "a page of the server's own origin", own, true],
    ["accepts", "a page of an allowed origin", () => "https://play.example.org", true],
    ["refuses", "a page of another port", (server: Serving) => `${own(server)}1`, false],
    ["refuses", "a page of another site", () => "https://evil.example.org", false],
    ["refuses", "a sandboxed page", () => "null", false],
  ] as const)("%s %s", async (_verb, _who, originOf, isAllowed) => {
    await using server = await serving({ allowedOrigins: ["https://play.example.org"] });
    const origin = originOf(server);
    const { socket, open, closed } = bare(server, { headers: origin ? { origin } : {} });
    await open;
    if (isAllowed) {
      record(await server.next());
      socket.close(1000);
      expect((await closed).code).toBe(1000);
      return;
    }
    const { code, reason } = await closed;
    expect(code).toBe(4000 + statusCodes.PERMISSION_DENIED);
    expect(reason).toContain("allowedOrigins");
    expect(server.listener.streams).toBe(0);
  });

  test("refuses a page whose origin is a DNS name that an attacker points at this server", async () => {
    await using server = await serving();
    const host = `rebound.example.org:${server.listener.port}`;
    const { closed } = bare(server, { headers: { host, origin: `http://${host}` } });
    expect((await closed).code).toBe(4000 + statusCodes.PERMISSION_DENIED);
  });

  test("an allowed origin with a path is refused when the server starts", async () => {
    await expect(serving({ allowedOrigins: ["https://example.org/game"] })).rejects.toThrow(
      /expected "https:\/\/host".*received "https:\/\/example.org\/game"/,
    );
  });

  test("a client that does not offer the sub-protocol receives an error that names it", async () => {
    await using server = await serving();
    const { closed } = bare(server, { protocols: [] });
    const { code, reason } = await closed;
    expect(code).toBe(4000 + statusCodes.INVALID_ARGUMENT);
    expect(reason).toContain(subprotocol);
  });

  test("a connection above maxConnections receives an error", async () => {
    await using server = await serving({ maxConnections: 1 });
    await using first = await openStream(server.address);
    record(first);
    record(await server.next());
    await using second = await openStream(`ws://${server.address}`);
    const error = await record(second).closed;
    expect(error).toMatchObject({ code: "RESOURCE_EXHAUSTED", origin: "server" });
    expect(error?.message).toContain("maxConnections");
  });

  test("a WebSocket to an unknown path is not found", async () => {
    await using server = await serving();
    const socket = new WebSocket(`ws://${server.address}/elsewhere`, [subprotocol]);
    const error = await new Promise<Error>((resolve) => socket.once("error", resolve));
    expect(error.message).toContain("404");
  });

  test("the error for an address where no server listens names the cause", async () => {
    await expect(openStream("ws://127.0.0.1:1")).rejects.toThrow(
      /no server listens on 127.0.0.1:1/,
    );
  });
});

describe("large requests over a WebSocket", () => {
  test.each([
    ["in one frame", 1],
    ["in several frames", 3],
  ])(
    "%s leave turns to other streams while they are checked, also if several clients send them",
    async (_how, frames) => {
      const checks = slowChecks();
      await using server = await serving({ codecs: checks.codecs });
      const step = bytesOf(stepRequest(500_000));
      const served: Recorder<ProcessRequest>[] = [];
      const clients: WebSocket[] = [];
      for (let i = 0; i < 6; i++) {
        const { socket, open, closed } = bare(server);
        await open;
        onTestFinished(() => {
          socket.terminate();
          return closed.then(() => {});
        });
        clients.push(socket);
        served.push(record(await server.next()));
      }
      for (const client of clients) {
        sendInFrames(client, step, frames);
        client.send(bytesOf(named("next")));
      }
      await Promise.all(served.map((each) => each.seen("message", 2)));
      expect(served.map(({ messages }) => messages.map((message) => message.case))).toEqual(
        Array(6).fill(["step", "joinWorld"]),
      );
      expect(checks.bytes()).toBe(6 * step.length);
      // One part takes a turn. Two turns of the listener may begin in one turn of this test.
      expect(checks.mostInTurn()).toBeLessThanOrEqual(2);
    },
  );

  test("that exceed a limit of the codec are refused before they have arrived, in their order", async () => {
    await using server = await serving();
    const client = new WebSocket(`ws://${server.address}${processPath}`, [subprotocol]);
    const [response] = await once(client, "upgrade");
    const served = record(await server.next());
    const unknownFields = Buffer.alloc(3_000_000, Buffer.of(0xa0, 1, 1));
    const framed = maskedFrame(unknownFields);
    response.socket.write(maskedFrame(bytesOf(named("first"))));
    response.socket.write(framed.subarray(0, 1_500_000));
    await served.seen("message", 2);
    response.socket.write(framed.subarray(1_500_000));
    response.socket.write(maskedFrame(bytesOf(named("last"))));
    await served.seen("message", 3);
    expect(served.messages.map(nameOf)).toEqual(["first", "no name: malformed", "last"]);
    expect(served.messages[1]?.value).toMatchObject({
      message: expect.stringContaining("maxMessageWork"),
    });
    client.terminate();
    await served.closed;
  });

  test("that are refused while their stream is paused wait for their turn", async () => {
    await using server = await serving();
    const client = new WebSocket(`ws://${server.address}${processPath}`, [subprotocol]);
    const [response] = await once(client, "upgrade");
    const stream = await server.next();
    const served = record(stream, { onMessage: () => stream.pause() });
    const unknownFields = Buffer.alloc(3_000_000, Buffer.of(0xa0, 1, 1));
    for (const body of [bytesOf(named("first")), unknownFields, bytesOf(named("last"))]) {
      response.socket.write(maskedFrame(body));
    }
    await served.seen("message");
    const pong = once(client, "pong");
    client.ping();
    stream.resume();
    await served.seen("message", 2);
    expect(served.messages.map(nameOf)).toEqual(["first", "no name: malformed"]);
    stream.resume();
    await served.seen("message", 3);
    stream.resume();
    await pong;
    expect(served.messages.map(nameOf)).toEqual(["first", "no name: malformed", "last"]);
    client.terminate();
    await served.closed;
  });

  test("in several frames are refused in their order, also while their stream is paused", async () => {
    await using server = await serving();
    const { socket, open } = bare(server);
    await open;
    const stream = await server.next();
    const served = record(stream, { onMessage: () => stream.pause() });
    const unknownFields = Buffer.alloc(3_000_000, Buffer.of(0xa0, 1, 1));
    socket.send(bytesOf(named("first")));
    sendInFrames(socket, unknownFields, 3);
    socket.send(bytesOf(named("last")));
    socket.send(endMessage);
    for (let seen = 1; seen <= 3; seen++) {
      await served.seen("message", seen);
      stream.resume();
    }
    await served.seen("end");
    expect(served.messages.map(nameOf)).toEqual(["first", "no name: malformed", "last"]);
    socket.terminate();
    await served.closed;
  });

  test("do not count as stalled while they wait for their turn", async () => {
    const checks = slowChecks();
    await using server = await serving({ codecs: checks.codecs, stalledMessageMs: 20 });
    const { socket, open, closed } = bare(server);
    await open;
    const served = record(await server.next());
    sendInFrames(socket, bytesOf(stepRequest(3_000_000)), 3);
    await Promise.race([served.seen("message"), served.closed]);
    expect(served.messages.map((message) => message.case)).toEqual(["step"]);
    socket.terminate();
    await closed;
  });

  test("of a client that leaves while they are checked are dropped", async () => {
    const checks = slowChecks();
    await using server = await serving({ codecs: checks.codecs });
    const { socket, open } = bare(server);
    await open;
    const served = record(await server.next());
    sendInFrames(socket, bytesOf(stepRequest(3_000_000)), 3);
    await expect.poll(() => checks.bytes()).toBeGreaterThan(0);
    socket.terminate();
    expect(await served.closed).toBeInstanceOf(DmEnvRpcError);
    const checked = checks.bytes();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(checks.bytes()).toBe(checked);
    expect(served.messages).toEqual([]);
  });
});

describe("hostile WebSockets", () => {
  test.each([
    ["[", "http://["],
    ["", "http://"],
    ["a b", "http://a b"],
    ["x:99999", "http://x:99999"],
  ])(
    "a host %j that is not valid in a URL is refused, and the server survives",
    async (host, origin) => {
      await using server = await serving();
      const socket = connectTcp(server.listener.port, "127.0.0.1");
      socket.on("error", () => {});
      socket.resume();
      socket.write(`OPTIONS /x HTTP/1.1\r\nHost: ${host}\r\nOrigin: ${origin}\r\n\r\n`);
      await new Promise((resolve) => socket.once("data", resolve));
      socket.destroy();
      await using stream = await openStream(`ws://${server.address}`);
      const client = record(stream);
      echo(await server.next());
      stream.send(named("still here"));
      await client.seen("message");
    },
  );

  test("an upgrade to another path leaves no socket open", async () => {
    await using server = await serving();
    for (let i = 0; i < 5; i++) {
      const socket = connectTcp({
        port: server.listener.port,
        host: "127.0.0.1",
        allowHalfOpen: true,
      });
      socket.on("error", () => {});
      socket.resume();
      socket.write(
        "GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\njunk",
      );
      await new Promise((resolve) => socket.once("end", resolve));
      while (server.listener.connections > 0) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      socket.destroy();
    }
  });

  test("the buffered frames of a closed WebSocket are not read", async () => {
    const binary = Buffer.from([0x82, 0x82, 0, 0, 0, 0, 1, 2]);
    let messages = 0;
    let isClosed = (): void => {};
    const closed = new Promise<void>((resolve) => {
      isClosed = resolve;
    });
    const route: WebSocketRoute = {
      subprotocol,
      maxMessageBytes: 1_000,
      accept(socket) {
        socket.start({
          onBinary() {
            messages += 1;
            if (messages === 1) {
              socket.pause();
            }
          },
          onText() {},
          onDrain() {},
          onPartial() {},
          onRefusal() {},
          onTooLarge() {},
          onClose: isClosed,
        });
      },
    };
    // A paused socket notices the reset when it writes its next ping.
    const webSockets = new Map([["/flood", route]]);
    await using server = await serving({ webSockets, pingIntervalMs: 20 });
    const client = new WebSocket(`ws://${server.address}/flood`, [subprotocol]);
    const [response] = await once(client, "upgrade");
    response.socket.write(Buffer.alloc(4_000_000, binary));
    await expect.poll(() => messages).toBe(1);
    response.socket.resetAndDestroy();
    await closed;
    expect(messages).toBe(1);
  });

  test("a request with another kind of upgrade is answered as a plain request", async () => {
    await using server = await serving();
    const response = await new Promise<string>((resolve) => {
      const socket = connectTcp(server.listener.port, "127.0.0.1");
      socket.once("data", (bytes) => {
        resolve(String(bytes));
        socket.destroy();
      });
      socket.write(
        "GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
      );
    });
    expect(response).toMatch(/^HTTP\/1.1 404 /);
    expect(response).toContain("nothing is served at /x");
  });

  test("an incomplete message that stalls ends its stream even if pings arrive in between", async () => {
    await using server = await serving({ stalledMessageMs: 100 });
    const { socket, open, closed } = bare(server);
    const served = record(await server.next());
    await open;
    socket.send(bytesOf(named("first part")), { fin: false, binary: true });
    const pings = setInterval(() => socket.ping("still here"), 5);
    try {
      expect(await served.closed).toMatchObject({ code: "DEADLINE_EXCEEDED" });
      await closed;
    } finally {
      clearInterval(pings);
    }
  });

  test("messages in thousands of frames of one byte end their streams, and a message in 1,000 does not", async () => {
    await using server = await serving();
    const first = bare(server);
    const whole = record(await server.next());
    await first.open;
    const message = bytesOf(stepRequest(900));
    sendInFrames(first.socket, message, message.length);
    await whole.seen("message");
    // Each client stays within `maxFragments`; a slow machine reads fewer fragments between two surveys.
    const floods = Array.from({ length: 16 }, () => bare(server));
    const served = await Promise.all(floods.map(async () => record(await server.next())));
    for (const { network } of floods) {
      (await network).write(fragments(16_000, 1));
    }
    const error = await Promise.race(served.map(({ closed }) => closed));
    expect(error).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    expect(String(error)).toContain("too many pieces");
    const { code } = await Promise.race(floods.map(({ closed }) => closed));
    expect(code).toBe(4000 + statusCodes.RESOURCE_EXHAUSTED);
    for (const { socket } of [first, ...floods]) {
      socket.terminate();
    }
  });

  test("a message in more than 16,384 fragments ends its stream", async () => {
    await using server = await serving({ maxWebSocketRequestBytes: 8 * 1024 * 1024 });
    const { network, closed } = bare(server);
    const served = record(await server.next());
    (await network).write(fragments(16_385, 256));
    expect(await served.closed).toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringContaining("at most 16384 fragments per message"),
    });
    expect((await closed).code).toBe(4000 + statusCodes.RESOURCE_EXHAUSTED);
  });

  test("a response in more than 16,384 fragments ends the client's stream", async () => {
    const server = new WebSocketServer({ port: 0, host: "127.0.0.1", maxPayload: 0 });
    await once(server, "listening");
    server.on("connection", (socket) => {
      sendInFrames(socket, new Uint8Array(16_385), 16_385);
    });
    const { port } = server.address() as AddressInfo;
    const stream = await openStream(`ws://127.0.0.1:${port}`);
    expect(await record(stream).closed).toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringContaining("make the server send messages whole"),
    });
    await stream.close();
    server.close();
  });

  test("pings do not belong to a message, so a quiet stream does not count as stalled", async () => {
    await using server = await serving({ stalledMessageMs: 20, pingIntervalMs: 5 });
    const { socket, open } = bare(server);
    const served = record(await server.next());
    await open;
    let pings = 0;
    await new Promise<void>((resolve) => {
      socket.on("ping", () => {
        pings += 1;
        if (pings === 20) {
          resolve();
        }
      });
    });
    expect(served.events).toEqual([]);
    socket.terminate();
    await served.closed;
  });

  test("messages that were delivered are released although another always waits", async () => {
    await using server = await serving();
    const { socket, open } = bare(server);
    const stream = await server.next();
    let received = 0;
    const closed = new Promise((resolve) => {
      stream.start({
        onMessage() {
          received += 1;
          stream.pause();
        },
        onDrain() {},
        onEnd() {},
        onClose: resolve,
      });
    });
    await open;
    const before = reachableArrayBuffers();
    const message = bytesOf(stepRequest(30_000));
    const waiting = async (messages: number): Promise<void> => {
      const bytes = messages * message.length;
      await expect
        .poll(() => server.listener.bufferedBytes, { interval: 0 })
        .toBeGreaterThanOrEqual(bytes);
    };
    socket.send(message);
    await expect.poll(() => received, { interval: 0 }).toBe(1);
    socket.send(message);
    await waiting(1);
    for (let sent = 2; sent < 200; sent++) {
      socket.send(message);
      await waiting(2);
      stream.resume();
      await expect.poll(() => received, { interval: 0 }).toBe(sent);
    }
    await expect.poll(() => reachableArrayBuffers() - before).toBeLessThan(2_000_000);
    socket.terminate();
    await closed;
  });

  test("a small message that waits does not keep the memory of what arrived with it", async () => {
    await using server = await serving();
    const client = new WebSocket(`ws://${server.address}${processPath}`, [subprotocol]);
    const [response] = await once(client, "upgrade");
    const stream = await server.next();
    const served = record(stream, { onMessage: () => stream.pause() });
    const pongs = Buffer.alloc(60_000, Buffer.of(0x8a, 0x80, 0, 0, 0, 0));
    const message = bytesOf(named("a"));
    const header = Buffer.of(0x82, 0x80 | message.length, 0, 0, 0, 0);
    const parts = Buffer.concat([header, message, pongs]);
    const before = reachableArrayBuffers();
    for (let part = 0; part < 100; part++) {
      response.socket.write(parts);
      const pong = once(client, "pong");
      client.ping();
      await pong;
    }
    await expect.poll(() => reachableArrayBuffers() - before).toBeLessThan(2_000_000);
    client.terminate();
    await served.closed;
  });

  test("the empty messages that wait during a pause are bounded, too", async () => {
    await using server = await serving({ maxBufferedBytes: 1024 * 1024 });
    const { socket, open } = bare(server);
    const stream = await server.next();
    record(stream);
    stream.pause();
    await open;
    const empty = new Uint8Array(0);
    let sent = 0;
    while (socket.bufferedAmount < 1024 * 1024 && sent < 5_000_000) {
      for (let i = 0; i < 1_000; i++) {
        socket.send(empty, { binary: true });
      }
      sent += 1_000;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(sent).toBeLessThan(5_000_000);
    socket.terminate();
  });

  test.each(["maxConnections", "maxConnectionsPerAddress"])(
    "HTTP/2 connections and WebSockets share %s",
    async (limit) => {
      await using server = await serving({ [limit]: 1 });
      const { socket, open } = bare(server);
      const served = record(await server.next());
      await open;
      await expect(
        openStream(server.address).then(async (stream) => {
          throw (await record(stream).closed) ?? new Error("accepted");
        }),
      ).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
      await using second = await openStream(`ws://${server.address}`);
      const error = await record(second).closed;
      expect(error).toMatchObject({ code: "RESOURCE_EXHAUSTED", origin: "server" });
      expect(error?.message).toContain(`(limit: ${limit})`);
      // Closed connections no longer count.
      socket.terminate();
      await served.closed;
      let isAccepted = false;
      const accepted = server.next().then(() => {
        isAccepted = true;
      });
      const retry = async (): Promise<boolean> => {
        await Promise.race([bare(server).closed, accepted]);
        return isAccepted;
      };
      await expect.poll(retry, { timeout: 60_000 }).toBe(true);
    },
  );

  test("an idle connection of HTTP/1.1 does not delay a close", async () => {
    await using server = await serving();
    const socket = connectTcp(server.listener.port, "127.0.0.1");
    socket.write("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    await new Promise((resolve) => socket.once("data", resolve));
    socket.resume();
    const closed = new Promise((resolve) => socket.once("close", resolve));
    await server.listener.close({ graceMs: 100_000 });
    await closed;
  });
});

describe("the metadata of a page", () => {
  test("is sent as a sub-protocol and never replaces a header", async () => {
    await using server = await serving();
    const { socket, open, closed } = bare(server, {
      protocols: offeredProtocols({ authorization: "Bearer ü", "x-real-ip": "10.0.0.1" }),
      headers: { "x-real-ip": "192.0.2.7" },
    });
    const stream = await server.next();
    record(stream);
    expect(stream.peer.metadata.get("authorization")).toBe("Bearer ü");
    expect(stream.peer.metadata.get("x-real-ip")).toBe("192.0.2.7");
    expect(
      [...stream.peer.metadata.keys()].filter((name) => /websocket|upgrade/.test(name)),
    ).toEqual([]);
    await open;
    socket.close(1000);
    await closed;
  });

  test("is refused if it is malformed", async () => {
    await using server = await serving();
    const { closed } = bare(server, { protocols: [subprotocol, "dm_env_rpc.v1.metadata.e30x"] });
    expect((await closed).code).toBe(4000 + statusCodes.INVALID_ARGUMENT);
  });
});

describe("the life of a WebSocket", () => {
  test("behaviour 8: a peer that does not answer a ping is disconnected", async () => {
    await using server = await serving({ pingIntervalMs: 20 });
    const socket = new WebSocket(`ws://${server.address}${processPath}`, [subprotocol], {
      autoPong: false,
    });
    const served = record(await server.next());
    expect(await served.closed).toMatchObject({ code: "UNAVAILABLE" });
    socket.terminate();
  });

  test("a peer whose pong waits behind messages that are not read stays connected", async () => {
    await using server = await serving({ pingIntervalMs: 20 });
    const { socket, open } = bare(server);
    const stream = await server.next();
    const served = record(stream, {
      onMessage: () => {
        stream.pause();
        setTimeout(() => stream.resume(), 1);
      },
    });
    await open;
    for (let i = 0; i < 300; i++) {
      socket.send(bytesOf(stepRequest(40_000)));
    }
    await served.seen("message", 300);
    socket.terminate();
    await served.closed;
  });

  test("a quiet stream that answers pings stays open", async () => {
    // Both ends share this thread: an interval must be longer than a turn of a slow machine.
    const pingIntervalMs = 250;
    await using server = await serving({ pingIntervalMs });
    await using stream = await openStream(`ws://${server.address}`, { pingIntervalMs });
    const client = record(stream);
    echo(await server.next());
    let pings = 0;
    const { socket, closed } = bare(server);
    const pinged = new Promise<string>((resolve) => {
      socket.on("ping", () => {
        pings += 1;
        if (pings === 4) {
          resolve("pinged");
        }
      });
    });
    record(await server.next());
    expect(await Promise.race([pinged, closed])).toBe("pinged");
    socket.terminate();
    stream.send(named("still here"));
    await client.seen("message");
    expect(client.messages.map(answerOf)).toEqual(["still here"]);
  });

  test("an incomplete message that stalls ends its stream", async () => {
    await using server = await serving({ stalledMessageMs: 50 });
    const { socket, open, closed } = bare(server);
    const served = record(await server.next());
    await open;
    socket.send(bytesOf(named("first part")), { fin: false, binary: true });
    expect(await served.closed).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    expect((await closed).code).toBe(4000 + statusCodes.DEADLINE_EXCEEDED);
  });

  test("a WebSocket works over TLS", async () => {
    await using server = await serving({ tls: serverPair });
    await using stream = await openStream(`wss://${server.address}`, { tls: { ca: authority } });
    const client = record(stream);
    const served = echo(await server.next());
    stream.send(named("secret"));
    await client.seen("message");
    expect(served.messages.map(nameOf)).toEqual(["secret"]);
  });

  test("closing the listener cuts open WebSockets after the grace period", async () => {
    await using server = await serving();
    const { closed } = bare(server);
    record(await server.next());
    await server.listener.close({ graceMs: 1 });
    expect((await closed).code).toBe(1006);
  });
});
