// SPDX-License-Identifier: Apache-2.0
// Connections that break HTTP/2 or flood. The listener runs in this process.
import { once } from "node:events";
import { type ClientHttp2Stream, constants } from "node:http2";
import { connect as connectTls } from "node:tls";
import {
  emptySettings,
  frameFlags,
  frameTypes,
  headersOfCall,
  http2Frame,
  indexedHeader,
  preface,
} from "@dm-env-rpc/tests-processes";
import { expect, test } from "vitest";
import { openConnectStream } from "../open/open-connect-stream.ts";
import { openStream } from "../open/open-stream.ts";
import type { OpenedStream } from "../open/opened-stream.ts";
import { processPath } from "../stream/process-path.ts";
import { authority, serverPair } from "../testing/certificates.ts";
import { answerOf, named } from "../testing/messages.ts";
import { bytesOf, frame, rawCall } from "../testing/raw-call.ts";
import { type RawPeer, rawPeer, startOfCall } from "../testing/raw-peer.ts";
import { record } from "../testing/recorder.ts";
import { echo, type Serving, serving } from "../testing/serving.ts";

/** DATA on stream 0, which is a connection error. */
const violation = http2Frame(frameTypes.data, 0, 0, Buffer.of(0));

const maxFloodsPerAddress = 2;

/**
 * Eight times the bytes that a connection may send at once in addition to its messages (`otherBytes`). nghttp2 itself
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

/**
 * Floods too often, and returns a stream that is opened afterwards and waits. The listener forgets floods after four
 * seconds. If the machine pauses for that long, this function floods again.
 */
async function waiting(
  server: Serving,
  flood: () => Promise<void>,
  open: () => Promise<OpenedStream> = () => openStream(server.address),
): Promise<{ readonly opening: Promise<OpenedStream> }> {
  const waits = () => server.listener.refusals.get("maxFloodsPerAddress");
  for (;;) {
    for (let floods = 0; floods <= maxFloodsPerAddress; floods++) {
      await flood();
    }
    expect(waits()).toBeUndefined();
    let isOpen = false;
    const opening = open().then((stream) => {
      isOpen = true;
      return stream;
    });
    await until(() => isOpen || waits() !== undefined);
    if (waits() !== undefined) {
      expect(waits()).toBe(1);
      return { opening };
    }
    record(await server.next());
    await (await opening).close();
  }
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
