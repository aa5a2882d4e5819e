// SPDX-License-Identifier: Apache-2.0
// Connections that break HTTP/2 or flood. The listener runs in this process.
import { once } from "node:events";
import { type ClientHttp2Stream, connect, constants } from "node:http2";
import { connect as connectTls } from "node:tls";
import { Health } from "@dm-env-rpc/protocol/health";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import {
  emptySettings,
  frameFlags,
  frameTypes,
  headersOfCall,
  http2Frame,
  indexedHeader,
  preface,
} from "@dm-env-rpc/tests-processes";
import { expect, test, vi } from "vitest";
import { openConnectStream } from "../../open/open-connect-stream.ts";
import { openStream } from "../../open/open-stream.ts";
import type { OpenedStream } from "../../open/opened-stream.ts";
import type { ServerStream } from "../../stream/message-stream.ts";
import { processPath } from "../../stream/process-path.ts";
import { authority, serverPair } from "../../testing/certificates.ts";
import { floodUntilWaiting } from "../../testing/flooding.ts";
import { answerOf, named } from "../../testing/messages.ts";
import { bytesOf, frame, rawCall } from "../../testing/raw-call.ts";
import { type RawPeer, rawPeer, startOfCall } from "../../testing/raw-peer.ts";
import { record } from "../../testing/recorder.ts";
import { echo, type Serving, serving } from "../../testing/serving.ts";
import type { ListenOptions } from "../listen-options.ts";

/** DATA on stream 0, which is a connection error. */
const violation = http2Frame(frameTypes.data, 0, 0, Buffer.of(0));

const maxFloodsPerAddress = 2;

/**
 * Eight times the bytes that a connection may send at once in addition to its messages (`mostOtherBytes`). nghttp2 itself
 * ends a connection after 160 MB of unknown frames, which a fast peer could send between two checks of the listener. So
 * the tests send far less.
 */
const floodBytes = 32 * 1024 * 1024;

/** Sends bytes without pause, and waits until the server closes the connection. */
async function pour(peer: RawPeer, bytes: Buffer): Promise<void> {
  const closed = new Promise((resolve) => peer.socket.once("close", resolve));
  for (let sent = 0; sent < floodBytes && !peer.socket.destroyed; sent += bytes.length) {
    peer.write(bytes);
    if (peer.socket.writableNeedDrain) {
      // Not `once`, which rejects if the server closes the connection before that.
      const drained = new Promise((resolve) => peer.socket.once("drain", resolve));
      await Promise.race([drained, closed]);
    }
  }
  await closed;
}

function reported(server: Serving): string {
  return server.errors.map(({ message }) => message).join("\n");
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Floods until a stream waits; returns the stream's opening. */
function waiting(
  server: Serving,
  flood: () => Promise<void>,
  open: () => Promise<OpenedStream> = () => openStream(server.address),
): Promise<{ readonly opening: Promise<OpenedStream> }> {
  return floodUntilWaiting(server.listener, {
    maxFloodsPerAddress,
    flood,
    open,
    async close(stream) {
      record(await server.next());
      await stream.close();
    },
  });
}

test("after too many connections that break HTTP/2, a new connection waits, and open connections continue", async () => {
  await using server = await serving({ maxFloodsPerAddress });
  await using open = await openStream(server.address);
  const player = record(open);
  echo(await server.next());
  const { opening } = await waiting(server, async () => {
    await using peer = rawPeer(server.listener.port);
    peer.write(preface, emptySettings, violation);
    await once(peer.socket, "close");
  });
  open.send(named("still here"));
  await player.seen("message");
  await using late = await opening;
  const visitor = record(late);
  echo(await server.next());
  late.send(named("patient"));
  await visitor.seen("message");
});

test("after too many floods, the connections of the address that have made no call are closed", async () => {
  await using server = await serving({ onStream: echo, maxFloodsPerAddress });
  await using unused = rawPeer(server.listener.port);
  await using used = rawPeer(server.listener.port);
  unused.write(preface, emptySettings);
  used.write(startOfCall);
  await until(() => server.listener.streams === 1);
  used.write(...resets([1], constants.NGHTTP2_CANCEL));
  await until(() => server.listener.streams === 0);
  await until(() => unused.socket.bytesRead > 0);
  const closed = once(unused.socket, "close");
  for (let flood = 0; flood <= maxFloodsPerAddress; flood++) {
    expect(unused.socket.destroyed).toBe(false);
    await using peer = rawPeer(server.listener.port);
    peer.write(preface, emptySettings, violation);
    await once(peer.socket, "close");
  }
  await closed;
  expect(used.socket.readable).toBe(true);
  const bytesRead = used.socket.bytesRead;
  used.write(http2Frame(frameTypes.ping, 0, 0, Buffer.alloc(8)));
  await until(() => used.socket.bytesRead > bytesRead);
});

test("a connection that starts although its address has flooded may wait before its first call", async () => {
  await using server = await serving({ onStream: echo, maxFloodsPerAddress });
  const { listener } = server;
  while (!listener.refusals.has("maxFloodsPerAddress")) {
    await using peer = rawPeer(listener.port);
    peer.write(preface, emptySettings, violation);
    await Promise.race([
      once(peer.socket, "close"),
      until(() => listener.refusals.has("maxFloodsPerAddress")),
    ]);
  }
  await using late = rawPeer(listener.port);
  late.write(preface, emptySettings);
  await until(() => late.socket.bytesRead > 0);
  await new Promise((resolve) => setTimeout(resolve, 300)); // Three checks for floods.
  late.write(startOfCall.subarray(preface.length + emptySettings.length));
  await until(() => listener.streams === 1);
});

test("connections that open more streams than maxStreamsPerConnection count as floods", async () => {
  await using server = await serving({ maxFloodsPerAddress, maxStreamsPerConnection: 1 });
  const second = http2Frame(
    frameTypes.headers,
    frameFlags.endHeaders,
    3,
    headersOfCall(processPath),
  );
  const { opening } = await waiting(server, async () => {
    await using peer = rawPeer(server.listener.port);
    peer.write(startOfCall);
    echo(await server.next());
    peer.write(http2Frame(frameTypes.settings, frameFlags.ack, 0), second); // The limit applies from here on.
    await once(peer.socket, "close");
  });
  await using late = await opening;
  const visitor = record(late);
  echo(await server.next());
  late.send(named("patient"));
  await visitor.seen("message");
});

test("connections that open and reset streams until HTTP/2 fails count as floods", async () => {
  await using server = await serving({
    onStream: echo,
    maxFloodsPerAddress,
    maxStreamsPerConnection: 10_000,
  });
  const opened = headersOfCall(processPath);
  const canceled = Buffer.of(0, 0, 0, constants.NGHTTP2_CANCEL);
  const flood = async (): Promise<void> => {
    await using peer = rawPeer(server.listener.port);
    const closed = once(peer.socket, "close");
    const calls = Array.from({ length: 4_000 }, (_, i) => [
      http2Frame(frameTypes.headers, frameFlags.endHeaders, 2 * i + 1, opened),
      http2Frame(frameTypes.rstStream, 0, 2 * i + 1, canceled),
    ]);
    peer.write(preface, emptySettings, ...calls.flat());
    await closed;
  };
  const { opening } = await floodUntilWaiting(server.listener, {
    maxFloodsPerAddress,
    flood,
    open: () => openStream(server.address),
    close: (stream) => stream.close(),
  });
  const late = record(await opening);
  (await opening).send(named("patient"));
  await late.seen("message");
  await (await opening).close();
});

/** Ways in which a client abandons its streams. */
const abandoning = {
  "closing the connection": (peer) => peer.socket.destroy(),
  "closing the connection after a GOAWAY that names no error": (peer) =>
    void peer.socket.end(goAwayWith(constants.NGHTTP2_NO_ERROR)),
  "closing the connection after a GOAWAY that asks for calm": (peer) =>
    void peer.socket.end(goAwayWith(constants.NGHTTP2_ENHANCE_YOUR_CALM)),
  "resets with CANCEL": (peer, ids) => peer.write(...resets(ids, constants.NGHTTP2_CANCEL)),
  "resets with NO_ERROR": (peer, ids) => peer.write(...resets(ids, constants.NGHTTP2_NO_ERROR)),
} satisfies Record<string, (peer: RawPeer, ids: readonly number[]) => void>;

function goAwayWith(code: number): Buffer {
  return http2Frame(frameTypes.goAway, 0, 0, Buffer.of(0, 0, 0, 0, 0, 0, 0, code));
}

function resets(ids: readonly number[], code: number): Buffer[] {
  return ids.map((id) => http2Frame(frameTypes.rstStream, 0, id, Buffer.of(0, 0, 0, code)));
}

const idsOf250 = Array.from({ length: 250 }, (_, i) => 2 * i + 1);

/** The headers of 250 calls of Process. */
const headersOf250 = idsOf250.map((id) =>
  http2Frame(frameTypes.headers, frameFlags.endHeaders, id, headersOfCall(processPath)),
);

/**
 * Opens 250 streams on each of `count` connections at once, and abandons them once all are served, or once a connection
 * waits.
 */
async function abandonStreams(
  server: Serving,
  count: number,
  way: keyof typeof abandoning = "closing the connection",
): Promise<void> {
  const { listener } = server;
  const peers = Array.from({ length: count }, () => rawPeer(listener.port));
  const waits = (): boolean => listener.refusals.has("maxFloodsPerAddress");
  for (const peer of peers) {
    peer.write(preface, emptySettings, ...headersOf250);
  }
  await until(() => listener.streams === 250 * count || waits());
  for (const peer of peers) {
    abandoning[way](peer, idsOf250);
  }
  await until(() => listener.streams === 0 || waits());
  for (const peer of peers) {
    peer.socket.destroy();
  }
  await until(() => listener.streams === 0);
}

test.each(Object.keys(abandoning) as (keyof typeof abandoning)[])(
  "connections that open streams and abandon them without pause, by %s, count as floods",
  async (way) => {
    // Above these limits, streams would be refused instead.
    const limits = { maxStreamsPerAddress: 10_000, maxFloodsPerAddress };
    await using server = await serving({ onStream: echo, ...limits });
    let rounds = 0;
    while (!server.listener.refusals.has("maxFloodsPerAddress")) {
      await abandonStreams(server, 8, way);
      rounds += 1;
    }
    expect(rounds).toBeGreaterThan(0);
    await using late = await openStream(server.address);
    const player = record(late);
    late.send(named("patient"));
    await player.seen("message");
  },
);

test("connections that abandon too many streams are judged before the next regular check", async () => {
  await using server = await serving({
    onStream: echo,
    maxStreamsPerAddress: 10_000,
    maxFloodsPerAddress,
  });
  const { refusals, port } = server.listener;
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  try {
    await abandonStreams(server, 8);
    vi.advanceTimersByTime(1); // A regular check takes place after 100 ms.
    await using late = rawPeer(port);
    late.write(preface, emptySettings);
    let isServed = false;
    late.socket.once("data", () => {
      isServed = true;
    });
    await until(() => isServed || refusals.has("maxFloodsPerAddress"));
    expect(isServed).toBe(false);
  } finally {
    vi.useRealTimers();
  }
});

test("of connections that begin at once with many streams each, one starts after the streams of the others", async () => {
  const count = 12;
  await using server = await serving({ onStream: echo, maxStreamsPerAddress: 10_000 });
  const { listener } = server;
  const peers = Array.from({ length: count }, () => rawPeer(listener.port));
  let started = 0;
  for (const peer of peers) {
    peer.socket.once("data", () => {
      started += 1; // The server's SETTINGS.
    });
    peer.write(preface.subarray(0, 2));
  }
  await until(() => listener.connections === count);
  for (const peer of peers) {
    peer.write(preface.subarray(2), emptySettings, ...headersOf250);
  }
  let mostAhead = 0;
  await until(() => {
    mostAhead = Math.max(mostAhead, started - listener.streams / 250);
    return listener.streams === 250 * count;
  });
  expect(started).toBe(count);
  expect(mostAhead).toBeGreaterThan(0);
  expect(mostAhead).toBeLessThan(5);
  for (const peer of peers) {
    peer.socket.destroy();
  }
});

test("clients that are killed with 1,000 streams do not count as floods", async () => {
  await using server = await serving({ onStream: echo, maxFloodsPerAddress });
  await abandonStreams(server, 4);
  await using open = await openStream(server.address);
  const player = record(open);
  open.send(named("at once"));
  await player.seen("message");
  expect(server.listener.refusals.get("maxFloodsPerAddress")).toBeUndefined();
});

const openCall = { ":method": "POST", "content-type": "application/grpc", te: "trailers" };

test("clients that close their connections right after thousands of answered calls do not count as floods", async () => {
  await using server = await serving({
    onStream: (stream) => stream.end(new DmEnvRpcError("PERMISSION_DENIED", "not you")),
    maxFloodsPerAddress,
    maxRequestsPerSecond: 0,
  });
  for (let client = 0; client < 10; client++) {
    const session = connect(`http://${server.address}`);
    // The calls are still open when the connection closes: the client has not ended its side.
    const answers = idsOf250.map(async () => {
      const call = session.request({ ...openCall, ":path": processPath });
      call.on("error", () => {});
      await once(call.resume(), "response");
    });
    await Promise.all(answers);
    session.destroy();
    await until(() => server.listener.streams === 0);
  }
  await new Promise((resolve) => setTimeout(resolve, 300)); // Three checks for floods.
  await using open = await openStream(server.address);
  await record(open).closed;
  expect(server.listener.refusals.get("maxFloodsPerAddress")).toBeUndefined();
});

test("agents whose last GOAWAY names their own stream, as that of grpc-go does, do not count as floods", async () => {
  await using server = await serving({ maxFloodsPerAddress });
  const goAway = http2Frame(frameTypes.goAway, 0, 0, Buffer.of(0, 0, 0, 1, 0, 0, 0, 0));
  for (let closed = 0; closed <= maxFloodsPerAddress; closed++) {
    await using peer = rawPeer(server.listener.port);
    peer.write(startOfCall);
    echo(await server.next());
    peer.write(goAway);
    await once(peer.socket, "close");
  }
  expect(reported(server)).toContain("Protocol error");
  await using stream = await openStream(server.address);
  const player = record(stream);
  echo(await server.next());
  stream.send(named("at once"));
  await player.seen("message");
  expect(server.listener.refusals.get("maxFloodsPerAddress")).toBeUndefined();
});

test("after too many connections that break HTTP/2 over TLS, a new connection waits before its handshake", async () => {
  await using server = await serving({ tls: serverPair, maxFloodsPerAddress });
  const { port } = server.listener;
  const flood = async (): Promise<void> => {
    const socket = connectTls({ port, host: "127.0.0.1", ca: authority, ALPNProtocols: ["h2"] });
    socket.on("error", () => {});
    socket.resume();
    socket.write(Buffer.concat([preface, emptySettings, violation]));
    await once(socket, "close");
  };
  const { opening } = await waiting(server, flood, () =>
    openStream(`https://${server.address}`, { tls: { ca: authority } }),
  );
  await using late = await opening;
  const visitor = record(late);
  echo(await server.next());
  late.send(named("patient"));
  await visitor.seen("message");
});

test.each([
  ["WINDOW_UPDATE", http2Frame(frameTypes.windowUpdate, 0, 0, Buffer.of(0, 0, 0, 1))],
  ["GOAWAY", http2Frame(frameTypes.goAway, 0, 0, Buffer.alloc(16_000))],
  ["unknown", http2Frame(0xfa, 0xff, 0, Buffer.alloc(16_000))],
])(
  "a connection that sends too many %s frames is ended, and other connections continue",
  async (_type, bytes) => {
    await using server = await serving();
    await using stream = await openStream(server.address);
    const player = record(stream);
    echo(await server.next());
    await using peer = rawPeer(server.listener.port);
    peer.write(startOfCall);
    const flood = record(await server.next());
    const many = Buffer.alloc(bytes.length * Math.ceil(64_000 / bytes.length), bytes);
    await pour(peer, many);
    await flood.closed;
    await until(() => reported(server).includes("received too many other frames"));
    stream.send(named("still here"));
    await player.seen("message");
  },
);

test("a connection that sends 17 GOAWAY frames is ended, but not a connection that sends 16", async () => {
  await using server = await serving();
  await using peer = rawPeer(server.listener.port);
  peer.write(startOfCall);
  const served = echo(await server.next());
  const goAway = http2Frame(frameTypes.goAway, 0, 0, Buffer.alloc(8));
  peer.write(
    Buffer.alloc(16 * goAway.length, goAway),
    http2Frame(frameTypes.data, 0, 1, frame(bytesOf(named("still here")))),
  );
  await served.seen("message");
  peer.write(goAway);
  await served.closed;
  await until(() => reported(server).includes("received too many other frames"));
});

test("a connection whose streams have too large headers is ended long before it has sent 4 MiB", async () => {
  await using server = await serving();
  await using peer = rawPeer(server.listener.port);
  const call = headersOfCall(processPath);
  const entry = indexedHeader("x-bomb", "b".repeat(3_900));
  const references = Buffer.alloc(16_384 - call.length - entry.length, 0xbe);
  const bomb = Buffer.concat([call, entry, references]);
  peer.write(preface, emptySettings);
  const closed = once(peer.socket, "close");
  for (let id = 1; id <= 201; id += 2) {
    peer.write(http2Frame(frameTypes.headers, frameFlags.endHeaders, id, bomb));
  }
  await closed;
  await until(() => reported(server).includes("received too many other frames"));
});

test("calls to unknown paths count for maxRequestsPerSecond, and a connection on which thousands are refused is ended", async () => {
  await using server = await serving({ maxRequestsPerSecond: 100 });
  await using call = rawCall(server.address);
  const served = record(await server.next());
  const statuses = new Set<number | undefined>();
  // As many as it takes: on a slow machine, more calls are within the rate.
  while (!call.session.destroyed) {
    const refused = Array.from({ length: 200 }, async () => {
      const stream = call.session.request({ ":path": "/nowhere" }).resume();
      stream.on("response", ({ ":status": status }) => statuses.add(status));
      stream.on("error", () => {});
      await new Promise((resolve) => stream.once("close", resolve)); // `once` rejects at an error.
    });
    await Promise.all(refused);
  }
  expect(await served.closed).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  await until(() => reported(server).includes("calls that were refused"));
  expect([...statuses]).toEqual([404, 429]);
});

const tooMany = new DmEnvRpcError("RESOURCE_EXHAUSTED", "too many streams");

function refuse(stream: ServerStream): void {
  stream.countRefused?.();
  stream.abort(tooMany);
}

test("connections on which too many streams are refused are judged before the next regular check", async () => {
  let refused = 0;
  await using server = await serving({
    onStream: (stream) => {
      refused += 1;
      refuse(stream);
    },
    maxRequestsPerSecond: 0,
    maxFloodsPerAddress,
  });
  const { refusals, port } = server.listener;
  const count = 20;
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  const peers = Array.from({ length: count }, () => rawPeer(port));
  try {
    for (const peer of peers) {
      peer.write(preface, emptySettings, ...headersOf250);
    }
    await until(() => refused === 250 * count);
    vi.advanceTimersByTime(1); // A regular check takes place after 100 ms.
    await using late = rawPeer(port);
    late.write(preface, emptySettings);
    let isServed = false;
    late.socket.once("data", () => {
      isServed = true;
    });
    await until(() => isServed || refusals.has("maxFloodsPerAddress"));
    expect(isServed).toBe(false);
    // 5,000 refused streams, with their headers, are four to five connections more than an address may have at once.
    const ended = () => server.errors.filter(({ message }) => message.includes("were refused"));
    await until(() => ended().length >= 4);
    await new Promise((resolve) => setImmediate(resolve));
    expect(ended().length).toBeLessThan(8);
  } finally {
    for (const peer of peers) {
      peer.socket.destroy();
    }
    vi.useRealTimers();
  }
});

test("a connection on which thousands of calls are admitted, but refused later, is ended", async () => {
  const path = "/grpc.health.v1.Health/Check";
  await using server = await serving({
    routes: (router) => router.service(Health, { check: () => ({}) }),
    byteStreams: new Map([[path, async () => {}]]),
    onCall: (call) => () => call.refused(),
  });
  await using call = rawCall(server.address);
  const served = record(await server.next());
  const type = { "content-type": "application/grpc", te: "trailers" };
  // As many as it takes: refusals that arrive slowly do not count.
  while (!call.session.destroyed) {
    const refused = Array.from({ length: 200 }, async () => {
      const stream = call.session.request({ ":method": "POST", ":path": path, ...type }).resume();
      stream.on("error", () => {});
      stream.end(frame(Buffer.alloc(0)));
      await new Promise((resolve) => stream.once("close", resolve)); // `once` rejects at an error.
    });
    await Promise.all(refused);
  }
  expect(await served.closed).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  await until(() => reported(server).includes("calls that were refused"));
});

test.each([
  ["gRPC", openStream],
  ["Connect", openConnectStream],
])(
  "a client that sends many megabytes of messages by %s does not count as a flood",
  async (_protocol, open) => {
    await using server = await serving({ maxConnectRequestBytes: 8 * 1024 * 1024 });
    await using stream = await open(server.address);
    const client = record(stream);
    echo(await server.next());
    const name = "n".repeat(4 * 1024 * 1024);
    for (let sent = 1; sent <= 4; sent++) {
      stream.send(named(name));
      await until(() => client.messages.length === sent);
    }
    expect(client.messages.map(answerOf)).toEqual([name, name, name, name]);
    expect(server.errors).toEqual([]);
  },
);

test("a client that sends 800,000 small messages, each in a frame, does not count as a flood", async () => {
  await using server = await serving();
  await using peer = rawPeer(server.listener.port);
  peer.write(startOfCall);
  const served = record(await server.next());
  const message = http2Frame(frameTypes.data, 0, 1, Buffer.of(0, 0, 0, 0, 3, 0x10, 0x80, 0x01));
  const each = 200_000; // Their DATA (1.6 MB) fits in the stream's window. The headers of all 800,000 frames are 7.2 MB.
  for (let sent = each; sent <= 4 * each; sent += each) {
    peer.write(Buffer.alloc(each * message.length, message));
    await until(() => served.messages.length === sent || server.errors.length > 0);
  }
  expect(server.errors).toEqual([]);
});

test("a client that cancels 256 calls at once, again and again, does not count as a flood", async () => {
  await using server = await serving({ maxStreamsPerConnection: 257 });
  await using call = rawCall(server.address);
  const served = echo(await server.next());
  for (let round = 0; round < 3; round++) {
    const calls = Array.from({ length: 256 }, (): ClientHttp2Stream => {
      const stream = call.session.request({
        ":method": "POST",
        ":path": processPath,
        "content-type": "application/grpc",
      });
      return stream.on("error", () => {});
    });
    const closed = calls.map((stream) => once(stream, "close"));
    for (const stream of calls) {
      stream.close(constants.NGHTTP2_CANCEL);
    }
    await Promise.all(closed);
    await new Promise((resolve) => call.session.ping(resolve)); // The resets have arrived.
    await until(() => server.listener.streams === 1);
  }
  call.http2.write(frame(bytesOf(named("still here"))));
  await served.seen("message");
  expect(server.errors).toEqual([]);
});

test("a client whose canceled calls arrive together with its next calls does not count as a flood", async () => {
  await using server = await serving({ maxStreamsPerConnection: 65 });
  await using peer = rawPeer(server.listener.port);
  peer.write(startOfCall);
  const served = echo(await server.next());
  peer.write(http2Frame(frameTypes.settings, frameFlags.ack, 0)); // The limit applies from now on.
  const opened = headersOfCall(processPath);
  const canceled = Buffer.of(0, 0, 0, constants.NGHTTP2_CANCEL);
  let id = 1;
  const rounds = Array.from({ length: 8 }, () => {
    const ids = Array.from({ length: 64 }, () => {
      id += 2;
      return id;
    });
    return [
      ...ids.map((call) => http2Frame(frameTypes.headers, frameFlags.endHeaders, call, opened)),
      ...ids.map((call) => http2Frame(frameTypes.rstStream, 0, call, canceled)),
    ];
  });
  const stillHere = http2Frame(frameTypes.data, 0, 1, frame(bytesOf(named("still here"))));
  peer.write(Buffer.concat([...rounds.flat(), stillHere]));
  await served.seen("message");
  expect(server.errors).toEqual([]);
});

/** Counts the streams that start, and the most that start between two turns of the event loop. */
function countStarts(): Pick<ListenOptions, "onStream"> & { all: number; most: number } {
  let inTurn = 0;
  const starts = {
    all: 0,
    most: 0,
    onStream: (stream: ServerStream) => {
      if (inTurn === 0) {
        setImmediate(() => {
          starts.most = Math.max(starts.most, inTurn);
          inTurn = 0;
        });
      }
      inTurn += 1;
      starts.all += 1;
      echo(stream);
    },
  };
  return starts;
}

test("1,000 calls that a client opens at once start in turns, and all are answered", async () => {
  const starts = countStarts();
  await using server = await serving({ ...starts, maxStreamsPerConnection: 1_001 });
  await using call = rawCall(server.address);
  await call.response;
  const answers = Array.from({ length: 1_000 }, async (_, i) => {
    const stream = call.session.request({
      ":method": "POST",
      ":path": processPath,
      "content-type": "application/grpc",
    });
    const name = `agent ${i}`;
    const isEmpty = i % 2 === 0; // Its end arrives in a DATA frame of its own, while it waits.
    stream.end(isEmpty ? undefined : frame(bytesOf(named(name))));
    const status = once(stream, "trailers").then(([trailers]) => trailers["grpc-status"]);
    const answer = Buffer.concat(await stream.toArray());
    return [isEmpty || answer.includes(name), await status];
  });
  expect(new Set((await Promise.all(answers)).map(String))).toEqual(new Set(["true,0"]));
  expect(starts.all).toBe(1_001);
  // 8 as their headers arrive, and 8 before the test's own task of the same turn.
  expect(starts.most).toBeLessThanOrEqual(16);
  expect(server.errors).toEqual([]);
});

test("200 unary calls with empty messages that a client opens at once are all answered", async () => {
  await using server = await serving({
    routes: (router) => router.service(Health, { check: () => ({}) }),
    maxStreamsPerConnection: 201,
  });
  await using call = rawCall(server.address);
  const served = record(await server.next());
  const answers = Array.from({ length: 200 }, async () => {
    const stream = call.session.request({
      ":method": "POST",
      ":path": "/grpc.health.v1.Health/Check",
      "content-type": "application/proto",
    });
    stream.resume().end();
    const [{ ":status": status }] = await once(stream, "response");
    return status;
  });
  expect(new Set(await Promise.all(answers))).toEqual(new Set([200]));
  expect(served.events).toEqual([]);
  expect(server.errors).toEqual([]);
});

test("calls that are opened and reset at once do not start", async () => {
  const starts = countStarts();
  await using server = await serving(starts);
  await using peer = rawPeer(server.listener.port);
  peer.write(startOfCall);
  await until(() => starts.all === 1);
  const opened = headersOfCall(processPath);
  const canceled = Buffer.of(0, 0, 0, constants.NGHTTP2_CANCEL);
  const calls = Array.from({ length: 500 }, (_, i) => [
    http2Frame(frameTypes.headers, frameFlags.endHeaders, 2 * i + 3, opened),
    http2Frame(frameTypes.rstStream, 0, 2 * i + 3, canceled),
  ]);
  const last = http2Frame(frameTypes.headers, frameFlags.endHeaders, 2_001, opened);
  const alive = http2Frame(frameTypes.data, 0, 2_001, frame(bytesOf(named("still here"))));
  const echoed = once(peer.socket, "data");
  peer.write(...calls.flat(), last, alive);
  await echoed;
  await until(() => server.listener.streams === 2);
  expect(starts.all).toBeLessThan(250);
  expect(server.errors).toEqual([]);
});

test("calls that are refused after a check for floods count as calls that are refused at once", async () => {
  let answer = (): void => {};
  const decided = new Promise<void>((resolve) => {
    answer = resolve;
  });
  let began = 0;
  await using server = await serving({
    maxStreamsPerConnection: 401,
    routes: (router) =>
      router.service(Health, {
        check: async () => {
          await decided;
          return {};
        },
      }),
    onCall: (call) => {
      began += 1;
      return () => call.refused();
    },
  });
  await using call = rawCall(server.address);
  echo(await server.next());
  const ends = Array.from({ length: 400 }, async () => {
    const stream = call.session.request({
      ":method": "POST",
      ":path": "/grpc.health.v1.Health/Check",
      "content-type": "application/proto",
    });
    stream.resume().end();
    await once(stream, "close");
  });
  await until(() => began === 400);
  await new Promise((resolve) => setTimeout(resolve, 300)); // Three checks for floods.
  answer();
  await Promise.all(ends);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(server.errors).toEqual([]);
  expect(call.session.closed).toBe(false);
});

test("the streams of a lost connection end with the same error", async () => {
  await using server = await serving();
  await using peer = rawPeer(server.listener.port);
  const further = [3, 5].map((id) =>
    http2Frame(frameTypes.headers, frameFlags.endHeaders, id, headersOfCall(processPath)),
  );
  peer.write(startOfCall, ...further);
  const streams = [await server.next(), await server.next(), await server.next()];
  const closed = streams.map((stream) => record(stream).closed);
  peer.socket.destroy();
  const [first, second, third] = await Promise.all(closed);
  expect(first).toMatchObject({ code: "UNAVAILABLE", origin: "connection" });
  expect(second).toBe(first);
  expect(third).toBe(first);
});
